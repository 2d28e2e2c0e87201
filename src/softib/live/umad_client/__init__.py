"""A client of the kernel's user_mad devices: what libibumad is for C, for MadBatch."""
