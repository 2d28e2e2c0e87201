"""Collectives as NCCL runs them: which algorithm and protocol, on which channels, in which chunks,
and the messages that they are."""
