"""Workloads: named patterns of messages, perftest's programs, traffic matrices, and several jobs that run together."""
