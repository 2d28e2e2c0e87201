"""Programs of ranks as columns: sends, receives and computations, what each waits for, and what
becomes of them on hosts."""
