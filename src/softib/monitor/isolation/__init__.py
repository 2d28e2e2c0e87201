"""Isolation of cables on a live subnet: ports disabled and enabled by MADs, checked afterwards, and recorded."""
