"""Isolation of cables on a live subnet. Ports are disabled and enabled with MADs; each change is checked and
recorded."""
