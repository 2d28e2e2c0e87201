"""Programs of ranks as columns (sends, receives and computations with their dependencies), and the messages of such a
program on hosts."""
