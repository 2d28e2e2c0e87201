"""Subcommands that read a fabric and its plan."""
