"""Comparison of predictions with the measurements in a benchmark's log, and fit of a machine to such a log."""
