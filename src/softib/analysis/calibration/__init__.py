"""Comparison of predictions with a log's measurements, and a machine fitted to a log."""
