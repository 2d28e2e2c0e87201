"""Watching a fabric: rounds of counters by MADs, what files and a Prometheus server tell, their
history, and the metrics that an exporter offers."""
