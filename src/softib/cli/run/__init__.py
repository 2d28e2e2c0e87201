"""Subcommands that run a fabric and programs on it."""
