"""Burn-in with proof of coverage: rounds of pairs that load every direction of every cable, and
their results."""
