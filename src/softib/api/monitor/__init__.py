"""A fabric over time: observing it, diagnosing it, exporting its counters, and ``softib top``."""
