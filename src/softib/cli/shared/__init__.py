"""Parts that subcommands share: options, output, completion, plain text, usage errors."""
