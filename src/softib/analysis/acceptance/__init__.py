"""Measurements between hosts, judged: what to measure and what to expect, which part is slow, what
has changed since a baseline."""
