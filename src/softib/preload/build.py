"""Compile ``libsoftib-umad.so``. Standard library only: the package's build runs this before the package exists.

``python -m softib.preload.build`` compiles it into the package where it stands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["LIBRARY", "compile_library", "compiler"]

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "umad"
LIBRARY = HERE / "lib" / "libsoftib-umad.so"
FLAGS = (
    "-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
    "-U_FORTIFY_SOURCE", "-Wl,-soname,libsoftib-umad.so", "-Wl,-z,now",
)  # fmt: skip
"""No fortified headers: they would turn the calls that the library defines into inline functions."""


def compiler() -> str | None:
    """The C compiler: ``$CC``, else ``cc`` or ``gcc``; None where there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name
    return None


def compile_library(to: Path = LIBRARY, more: Sequence[str] = ()) -> Path:
    """Compile to ``to`` with ``more`` flags (``-fsanitize=address``). Raises RuntimeError with the compiler's words."""
    cc = compiler()
    if cc is None:
        raise RuntimeError("no C compiler; install gcc, or name one in CC")
    to.parent.mkdir(parents=True, exist_ok=True)
    made = to.with_name(f".{to.name}.{os.getpid()}")
    sources = sorted(str(p) for p in SOURCES.glob("*.c"))
    done = subprocess.run(
        [*cc.split(), *FLAGS, *more, "-o", str(made), *sources, "-ldl", "-lpthread"], capture_output=True, text=True
    )
    if done.returncode:
        made.unlink(missing_ok=True)
        raise RuntimeError(f"{cc} failed:\n{done.stderr}")
    made.replace(to)
    return to


if __name__ == "__main__":
    print(compile_library())
