"""Finds cables, plugs and switches that are exchanged, so that each is in the position of another."""
