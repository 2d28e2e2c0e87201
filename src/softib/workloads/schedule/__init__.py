"""Programs of ranks as columns: sends, receives and computations with their dependencies. Also the messages of such a
program on hosts."""
