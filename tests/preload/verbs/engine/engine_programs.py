"""Programs in ``tests/preload/verbs/engine/programs`` compiled with the library's own sources."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from softib.preload import build
from tests.scratch import scratch

VERBS = Path(build.__file__).parent / "verbs"
HERE = Path(__file__).with_name("programs")
FLAGS = (
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O1",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-tsan",
    "-fno-omit-frame-pointer",
)
INCLUDES = tuple(
    f"-I{folder}"
    for folder in (
        VERBS,
        *sorted({p.parent for f in ("memory", "peers", "engine") for p in (VERBS / f).rglob("*.h")}),
        HERE,
    )
)


@functools.cache
def program(
    name: str, folders: tuple[str, ...] = ("memory", "peers"), more: tuple[str, ...] = (), files: tuple[str, ...] = ()
) -> Path:
    """``engine/NAME.c`` with all of ``folders`` and ``files`` of the library, compiled once a test run; skips where that
    cannot be."""
    cc = build.compiler()
    if cc is None:
        pytest.skip("no C compiler")
    if "engine" in folders and not Path("/usr/include/infiniband/verbs.h").is_file():
        pytest.skip("no infiniband/verbs.h; install libibverbs-dev")
    to = scratch("softib-engine-") / name
    sources = [HERE / f"{name}.c", *(p for f in folders for p in sorted((VERBS / f).rglob("*.c")))]
    sources += [VERBS / file for file in files]
    if "engine" in folders:
        sources += [p for p in sorted(HERE.glob("*.c")) if p.name.startswith(("rig", "stub", f"{name}_"))]
    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(lambda source: compiled(source, more), sources))
    done = subprocess.run(
        [*cc.split(), *more, "-o", str(to), *map(str, objects), "-lpthread", "-lm"], capture_output=True, text=True
    )
    if done.returncode and any("sanitize" in flag for flag in more) and "cannot find -l" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return to


objects: Path | None = None
"""Where all workers of a test run keep object files; set by the folder's ``conftest.py``."""


@functools.cache
def compiled(source: Path, more: tuple[str, ...]) -> Path:
    """Its object file, made once a test run: workers share it, for the sanitizers take half a minute over the whole engine."""
    assert objects is not None
    key = hashlib.sha256("\0".join((str(source), *more)).encode()).hexdigest()[:16]
    to = objects / f"{source.stem}-{key}.o"
    with (objects / f"{to.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not to.is_file():
            compile_object(source, more, to)
    return to


def compile_object(source: Path, more: tuple[str, ...], to: Path) -> None:
    cc = build.compiler()
    assert cc is not None
    part = to.with_suffix(".part.o")
    done = subprocess.run(
        [*cc.split(), *FLAGS, *more, *INCLUDES, "-c", "-o", str(part), str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    part.replace(to)


SANITIZERS = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}


FOLDERS = ("memory", "peers", "engine")


OPTIONS = {"TSAN_OPTIONS": "halt_on_error=0 exitcode=66", "ASAN_OPTIONS": "detect_leaks=0"}


def run(name, sanitizer, *arguments, limit_s=240, files=()):
    made = program(name, FOLDERS, SANITIZERS[sanitizer], files)
    done = subprocess.run(
        [made, *map(str, arguments)], capture_output=True, text=True, timeout=limit_s, env=os.environ | OPTIONS
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr[:6000]}"
    return done.stdout
