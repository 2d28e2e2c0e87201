"""Compiled kernels: the only way to Numba.

Rules, kept by :func:`kernel`:

* Kernels live in files named ``kernels.py`` or ``*_kernels.py``, or below a folder ``kernels``.
  Importing such a file loads no Numba; the first *call* of a kernel from Python does.
* Kernels take numbers, arrays (outputs and RNG state too) and :func:`table`\\ s of arrays, and call
  only other kernels and builtins.
* What Python calls and everything below it is one **unit** (:mod:`softib.jit.units`): optimised
  once, one piece of machine code. A kernel that is ``shared`` is a unit for other kernels too.
  Units and tables stand on private names of Numba; where these are missing or changed, kernels
  compile by ``numba.njit(cache=True)`` (:mod:`softib.jit.plain`), with the same results
  (:mod:`softib.jit.accelerators`).
* In ``report`` and ``check``, a kernel with an estimate of its ``steps`` runs in Python where its
  work is small and no machine code of it is there (:mod:`softib.jit.interpreted`).
* Machine code is kept below :func:`cache_dir` (:mod:`softib.jit.store`), named by all that it can
  depend on (:mod:`softib.jit.identity`): Numba's own cache does not notice an edited callee in
  another file.
* mypy leaves kernels out (pyproject.toml): Numba types them from their arguments, not from
  annotations.

A cache that cannot be used (no room, no permission, a damaged file) costs compile time and one line
on stderr, never the run.

``NUMBA_DISABLE_JIT=1`` runs every kernel as plain Python (for coverage and debuggers).
``SOFTIB_JIT=plain`` (``tables``, ``units``, ``both``) decides how they are compiled.
``SOFTIB_COMPILE=always`` compiles small work too, as ``softib compile`` does.
``SOFTIB_CACHE_DIR`` moves the cache (default ``$XDG_CACHE_HOME/softib`` or ``~/.cache/softib``).
"""

from softib.jit.accelerators import in_use
from softib.jit.functions import External, Kernel, inner, kernel
from softib.jit.interpreted import ALWAYS_COMPILE, small_work_in_python
from softib.jit.prefetch import prefetch
from softib.jit.progress import on_compiling
from softib.jit.store import cache_dir
from softib.jit.table import table

__all__ = [
    "ALWAYS_COMPILE",
    "External",
    "Kernel",
    "cache_dir",
    "in_use",
    "inner",
    "kernel",
    "on_compiling",
    "prefetch",
    "small_work_in_python",
    "table",
]
