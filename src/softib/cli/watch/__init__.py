"""Subcommands that watch a fabric and its jobs."""
