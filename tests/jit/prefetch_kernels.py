# mypy: ignore-errors
from softib.jit import kernel, prefetch


@kernel
def sum_ahead(t, rows):
    """The sum of column 1 of ``rows``, each fetched two before; rows far outside of the array are asked for too."""
    total = 0
    prefetch(t.wide, 1 << 40, -5)
    prefetch(t.wide, -(1 << 40), 7)
    for i in range(len(rows)):
        if i + 2 < len(rows):
            prefetch(t.wide, rows[i + 2], 1)
        total += t.wide[rows[i], 1]
    return total
