"""Functions that compute forwarding tables from a graph of switches, and the proof that tables are
correct.

Each engine is one file with OpenSM's name for it. This package uses no MADs, no files and no arrays
of a fabric.
"""
