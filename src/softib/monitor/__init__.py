"""Monitoring of a fabric. Counters are read in rounds with MADs, or from files or a Prometheus server. They are stored
in a history and exported as metrics."""
