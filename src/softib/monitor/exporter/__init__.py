"""The metrics of a fabric, for Prometheus."""
