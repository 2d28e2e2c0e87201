"""Programs in ``tests/verbs/engine`` compiled with the library's own sources."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import pytest

from softib.preload import build

VERBS = Path(build.__file__).parent / "verbs"
HERE = Path(__file__).with_name("engine")
FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-tsan", "-fno-omit-frame-pointer")


@functools.cache
def program(name: str, folders: tuple[str, ...] = ("memory",), more: tuple[str, ...] = ()) -> Path:
    """``engine/NAME.c`` with all of ``folders``, compiled once a test run; skips where that cannot be."""
    cc = build.compiler()
    if cc is None:
        pytest.skip("no C compiler")
    if "engine" in folders and not Path("/usr/include/infiniband/verbs.h").is_file():
        pytest.skip("no infiniband/verbs.h; install libibverbs-dev")
    to = Path(tempfile.mkdtemp(prefix="softib-engine-")) / name
    sources = [HERE / f"{name}.c", *(p for f in folders for p in sorted((VERBS / f).glob("*.c")))]
    if "engine" in folders:
        sources += [p for p in sorted(HERE.glob("*.c")) if p.name.startswith(("world", "stub", f"{name}_"))]
    done = subprocess.run(
        [*cc.split(), *FLAGS, *more, "-I", str(VERBS / "memory"), "-I", str(VERBS / "engine"), "-I", str(HERE),
         "-o", str(to), *map(str, sources), "-lpthread", "-lm"],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode and any("sanitize" in flag for flag in more) and "cannot find -l" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return to
