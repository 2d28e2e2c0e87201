"""Subcommands that predict traffic and plan fabrics."""
