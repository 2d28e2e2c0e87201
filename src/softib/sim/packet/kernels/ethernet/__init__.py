"""Ethernet: switches, priority flow control, multipath, TCP."""
