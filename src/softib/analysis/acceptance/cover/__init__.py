"""Burn-in that proves its coverage (cover run): rounds of pairs that load every direction of every cable, and their
results."""
