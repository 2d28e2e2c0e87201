"""The command line, with one small file per subcommand."""
