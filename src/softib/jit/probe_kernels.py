"""The kernel for the trial of :mod:`softib.jit.accelerators`. It compiles in a second and uses all
features that other kernels use."""

import numpy as np

from softib.jit.functions import kernel
from softib.jit.table import table

Probe = table("Probe", "rows strided square")


@kernel
def weight(x, factor):
    """Return a product. It is called with literals and with variables."""
    return x * factor


@kernel
def doubled(t, i):
    """Pass a table to another kernel. Two kernels call this one."""
    return weight(t.rows[i], 2) + weight(t.strided[i], i)


@kernel
def total(t, n):
    """Use the arrays of a table, an array that is created here, loops and floats."""
    counts = np.zeros(n, np.int64)
    for i in range(n):
        counts[i] = doubled(t, i) + weight(i, 7)
        t.rows[i] += 1
    return int(counts.sum() * 1.5) + t.rows.sum() + t.square[1, 1]


def example():
    """Return a table, and the value of ``total(table, 3)``."""
    rows, strided = np.arange(3) + 10, (np.arange(6) * 100)[::2]
    values = [int(rows[i]) * 2 + int(strided[i]) * i + i * 7 for i in range(3)]
    expected = int(sum(values) * 1.5) + int(rows.sum()) + 3 + 5
    return Probe(rows, strided, np.array([[1, 2], [4, 5]], np.uint8)), expected
