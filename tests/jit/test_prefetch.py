"""Memory that is fetched ahead, and tables whose rows have a fixed length."""

import numpy as np
import pytest

from softib.jit import table

from .prefetch_kernels import sum_ahead

Wide = table("Wide", "wide", {"wide": 4})


def test_prefetch_reads_nothing_and_changes_nothing():
    """Of any index, 8 TB outside of the array too: ``llvm.prefetch`` has no result and no fault (LLVM language reference)."""
    rows = np.array([3, 0, 2, 3])
    wide = np.arange(16).reshape(4, 4).copy()
    assert sum_ahead(Wide(wide), rows) == wide[rows, 1].sum() == sum_ahead.python(Wide(wide), rows)
    assert (wide.ravel() == np.arange(16)).all()


def test_a_row_of_another_length_is_refused():
    """Compiled code multiplies by the length that was stated: an array of another one must not get there."""
    with pytest.raises(TypeError, match=r"Wide\.wide has 5 columns, not 4"):
        Wide(np.zeros((4, 5), np.int64))
