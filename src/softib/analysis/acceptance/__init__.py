"""Analysis of measurements between hosts: plan, expected values, slow parts, and changes since a
baseline."""
