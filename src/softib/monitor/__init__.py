"""Monitoring of a fabric. Counters are read in rounds by MADs, from files, or from a Prometheus server. They are stored
in a history, and exported as metrics."""
