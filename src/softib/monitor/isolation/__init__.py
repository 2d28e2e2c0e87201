"""Isolation of cables on a live subnet: ports are disabled and enabled by MADs, checked afterwards, and recorded."""
