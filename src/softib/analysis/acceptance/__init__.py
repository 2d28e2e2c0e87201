"""Measurements between hosts: their plan, expected values, slow parts of the fabric, and changes since a baseline."""
