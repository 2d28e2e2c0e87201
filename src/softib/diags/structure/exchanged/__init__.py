"""Cables, plugs and switches that stand in each other's position."""
