"""Subcommands about softib itself."""
