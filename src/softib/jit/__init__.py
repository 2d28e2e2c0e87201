"""Compiled kernels: the only interface to
Numba.
Rules, enforced by :func:`kernel`:

* Kernels live in files named ``kernels.py`` or ``*_kernels.py``, or below a folder ``kernels``.
  Importing such a file loads no Numba; the first *call* of a kernel from Python does.
* Kernels take numbers, arrays (outputs and RNG state too) and :func:`table`\\ s of arrays, and call
  only other kernels and builtins.
* A kernel called from Python and all kernels below it form one **unit** (:mod:`softib.jit.units`):
  optimised once, one piece of machine code. A kernel that is ``shared`` is a separate unit for other
  kernels. Units and tables use private names of Numba; if these are missing or changed, kernels are
  compiled with ``numba.njit(cache=True)`` (:mod:`softib.jit.plain`), with the same results
  (:mod:`softib.jit.accelerators`).
* In ``report`` and ``check``, a kernel with an estimate of its ``steps`` runs in Python if its work
  is small and there is no machine code for it (:mod:`softib.jit.interpreted`).
* Machine code is stored below :func:`cache_dir` (:mod:`softib.jit.store`), under a name derived
  from everything it can depend on (:mod:`softib.jit.identity`): Numba's own cache does not notice
  an edited callee in another file.
* mypy ignores kernels (pyproject.toml): Numba types them from their arguments, not from
  annotations.

A cache that cannot be used (no room, no permission, a damaged file) costs compile time and one line
on stderr, never the run.

``NUMBA_DISABLE_JIT=1`` runs every kernel as plain Python (for coverage and debuggers).
``SOFTIB_JIT=plain`` (``tables``, ``units``, ``both``) selects how they are compiled.
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
