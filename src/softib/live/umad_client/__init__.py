"""A client of the kernel's user_mad devices, the counterpart of libibumad for C programs. MADs are passed as
MadBatch."""
