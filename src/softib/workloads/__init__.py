"""Workloads of a fabric: patterns of messages by name, perftest's programs, traffic matrices, and
mixtures of jobs."""
