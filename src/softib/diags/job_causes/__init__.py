"""Finds the faulty part from the log of a failed job."""
