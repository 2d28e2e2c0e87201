"""Collectives as in NCCL: its choice of algorithm and protocol, the division into channels and chunks, and the
messages."""
