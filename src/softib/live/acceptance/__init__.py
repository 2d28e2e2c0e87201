"""Acceptance runs: perftest on pairs of hosts, started by a launcher, and the journal of the measurements."""
