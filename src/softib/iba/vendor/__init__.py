"""Attributes and classes beyond the specification: those of Mellanox' devices, and softib's own."""
