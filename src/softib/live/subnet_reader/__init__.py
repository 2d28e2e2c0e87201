"""A subnet as a source of fabrics: what Gets through a umad device find (``umad:DEVICE``)."""
