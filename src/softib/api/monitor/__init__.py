"""A fabric over time: observation, diagnosis, export of its counters, isolation of cables, and ``softib top``."""
