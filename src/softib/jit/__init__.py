"""Compiled kernels. Only this package uses Numba. :func:`kernel` enforces these rules:

* Kernels are in files named ``kernels.py`` or ``*_kernels.py``, or below a folder ``kernels``. The
  import of such a file does not load Numba; the first *call* of a kernel from Python does.
* Arguments of kernels are numbers, arrays (including outputs and RNG state) and tables of arrays
  (:func:`table`). Kernels call only other kernels and builtins.
* A kernel that Python calls forms one **unit** with all kernels that it calls
  (:mod:`softib.jit.units`). The unit is optimised once and is one piece of machine code. A
  ``shared`` kernel is a separate unit, which other units call. Units and tables use private names
  of Numba. If these are missing or changed, kernels are compiled with ``numba.njit(cache=True)``
  (:mod:`softib.jit.plain`), with the same results (:mod:`softib.jit.accelerators`).
* In ``report`` and ``check``, a kernel that can estimate its ``steps`` runs in Python if its work
  is small and there is no machine code for it (:mod:`softib.jit.interpreted`).
* Machine code is stored below :func:`cache_dir` (:mod:`softib.jit.store`). The name of a file is
  derived from everything on which its content can depend (:mod:`softib.jit.identity`), because
  Numba's own cache does not notice a change of a called kernel in another file.
* mypy ignores kernels (pyproject.toml), because Numba infers their types from their arguments, not
  from annotations.

If the cache cannot be used (no space, no permission, a damaged file), kernels are compiled again
and one line is written to stderr; the program continues.

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
