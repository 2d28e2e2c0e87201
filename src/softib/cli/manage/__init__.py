"""Subcommands that manage a fabric."""
