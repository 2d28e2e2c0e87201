"""Programs of ranks as columns: sends, receives and computations with their dependencies, and their
messages on hosts."""
