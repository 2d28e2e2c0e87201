"""Dumps of forwarding tables."""
