"""Reachability and dependencies of channels: tables and their proof."""
