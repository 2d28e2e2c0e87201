"""Cover run, a burn-in that proves its coverage: rounds of pairs of hosts that load every direction of every cable, and
the results of these rounds."""
