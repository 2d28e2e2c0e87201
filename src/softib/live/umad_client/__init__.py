"""A client of the kernel's user_mad devices: the counterpart of C's libibumad for MadBatch."""
