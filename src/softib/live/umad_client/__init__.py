"""A client of the kernel's user_mad devices: what libibumad is for C programs, with MADs as MadBatch."""
