"""Predictions beside measurements: what a log says of them, and a machine fitted to a log."""
