"""Monitoring a fabric: rounds of counters by MADs, data from files and a Prometheus server, their history, and the
metrics of an exporter."""
