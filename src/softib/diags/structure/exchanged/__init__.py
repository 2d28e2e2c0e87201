"""Cables, plugs and switches that are in each other's position."""
