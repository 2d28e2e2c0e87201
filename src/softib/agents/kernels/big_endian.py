"""Read and write big-endian numbers in arrays of bytes. All results are int64, so that kernels
never mix signed and unsigned integers, which Numba would convert to float64."""

import numpy as np

from softib.jit import inner


@inner
def get8(b, i):
    """Return the byte at ``i``."""
    return np.int64(b[i])


@inner
def get16(b, i):
    """Return the two bytes at ``i``."""
    return (np.int64(b[i]) << 8) | np.int64(b[i + 1])


@inner
def get32(b, i):
    """Return the four bytes at ``i``."""
    return (np.int64(b[i]) << 24) | (np.int64(b[i + 1]) << 16) | (np.int64(b[i + 2]) << 8) | np.int64(b[i + 3])


@inner
def get64(b, i):
    """Return the eight bytes at ``i`` as uint64."""
    v = np.uint64(0)
    for j in range(8):
        v = (v << np.uint64(8)) | np.uint64(b[i + j])
    return v


@get64.in_python
def _get64(b, i):
    return np.uint64(int.from_bytes(b[i : i + 8], "big"))


@inner
def put16(b, i, v):
    """Write two bytes at ``i``."""
    b[i] = (v >> 8) & 0xFF
    b[i + 1] = v & 0xFF


@inner
def put32(b, i, v):
    """Write four bytes at ``i``."""
    for j in range(4):
        b[i + j] = (v >> (24 - 8 * j)) & 0xFF


@inner
def put64(b, i, v):
    """Write a uint64 at ``i``."""
    w = np.uint64(v)
    for j in range(8):
        b[i + 7 - j] = np.uint8(w & np.uint64(0xFF))
        w = w >> np.uint64(8)


@put64.in_python
def _put64(b, i, v):
    memoryview(b)[i : i + 8] = int(v).to_bytes(8, "big")


@inner
def same(a, i, b, j, n):
    """Return whether ``a[i:i+n]`` equals ``b[j:j+n]``."""
    for x in range(n):
        if a[i + x] != b[j + x]:
            return False
    return True


@inner
def copy(dst, i, src, j, n):
    """Copy ``src[j:j+n]`` to ``dst[i:i+n]``."""
    for x in range(n):
        dst[i + x] = src[j + x]


@copy.in_python
def _copy(dst, i, src, j, n):
    dst[i : i + n] = src[j : j + n]


@inner
def clear(dst, i, n):
    """Set ``dst[i:i+n]`` to 0."""
    for x in range(n):
        dst[i + x] = 0
