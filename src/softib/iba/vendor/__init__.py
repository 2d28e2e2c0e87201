"""Attributes and classes that the specification does not define: those of Mellanox' devices, and
those that softib defines."""
