"""Collectives as in NCCL: the choice of algorithm and protocol, channels, chunks, and the resulting
messages."""
