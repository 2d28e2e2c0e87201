"""Compile the preload libraries. The module imports only the standard library, because the package's build runs it
before the package exists.

``python -m softib.preload.build`` compiles them into the package in place. ``libsoftib-umad.so``,
``libsoftib-mpi.so`` and the program ``softib-wait`` need only a C compiler; ``libsoftib-verbs.so``
also needs the headers of libibverbs and librdmacm.

A library's build ID (the ELF note of ``ld --build-id``) is a digest of its sources, flags and compiler. A library with
the expected build ID is not compiled again, regardless of its file time.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "IPOIB",
    "LIBRARIES",
    "LIBRARY",
    "MPI_LIBRARY",
    "OPENED_AS",
    "VERBS_LIBRARY",
    "WAIT",
    "compile_ipoib",
    "compile_library",
    "compile_mpi",
    "compile_verbs",
    "compile_wait",
    "compiler",
    "generated_headers",
    "include_flags",
    "missing_headers",
    "not_built",
    "why_no_ipoib",
    "why_no_umad",
    "why_no_verbs",
]

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "umad"
VERBS_SOURCES = HERE / "verbs"
LIBRARY = HERE / "lib" / "libsoftib-umad.so"
VERBS_LIBRARY = LIBRARY.with_name("libsoftib-verbs.so")
VERBS_SONAME = "libibverbs.so.1"
"""The SONAME of ``libsoftib-verbs.so``. Because of this name, every program that links to or opens libibverbs gets the
preloaded library, regardless of RPATH and RUNPATH, and even if libibverbs is not installed."""
OPENED_AS = LIBRARY.parent / "opened" / "libibverbs.so"
"""An empty library that depends on ``libsoftib-verbs.so``. It has the other name of libibverbs, which NCCL opens first.
Its folder is added to LD_LIBRARY_PATH."""
MPI_SOURCES = HERE / "mpi"
MPI_LIBRARY = LIBRARY.with_name("libsoftib-mpi.so")
IPOIB_SOURCES = HERE / "ipoib"
IPOIB = LIBRARY.with_name("softib-ipoib")
"""The program that moves the packets of ``softib run --net``. It calls libibverbs, so it is linked
with ``libsoftib-verbs.so``, which is preloaded as in any other program."""
WAIT_SOURCES = HERE / "parent"
WAIT = LIBRARY.with_name("softib-wait")
"""The program that replaces the ``softib run`` process while the user's program runs."""
IBA = HERE.parent / "iba"
LINK_SPEEDS, CATALOGUE, CONSTANTS = IBA / "link_speeds.py", IBA / "catalogue" / "__init__.py", IBA / "constants.py"
GENERATED = LIBRARY.with_name("include")
"""Headers generated from tables in Python."""
FLAGS = (
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O2",
    "-g",
    "-fPIC",
    "-ftls-model=initial-exec",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-U_FORTIFY_SOURCE",
    "-falign-functions=64",
)
"""Compiler flags. Functions start at cache lines; otherwise the duration of a small WRITE varies by up to 13 % with the
length of the preceding code. Fortified headers are disabled, because they would replace the functions that the
libraries define with inline functions. Warnings are errors only in tests, so that a warning of a newer compiler does
not prevent an installation."""
HEADERS = ("infiniband/verbs.h", "rdma/rdma_cma.h")
INSTALL = "gcc libibverbs-dev librdmacm-dev"
"""The Debian and Ubuntu packages that are needed to compile the libraries."""


def compiler() -> str | None:
    """Return the C compiler: ``$CC`` if it is set, otherwise ``cc`` or ``gcc``; None if there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and shutil.which(name.split()[0]):
            return name
    return None


def compile_library(to: Path = LIBRARY, flags: Sequence[str] = ()) -> Path:
    """Compile ``libsoftib-umad.so`` to ``to`` with extra ``flags`` (for example ``-fsanitize=address``), unless it is
    current. Raises RuntimeError with the compiler's output.
    """
    return _compile(to, sorted(SOURCES.glob("*.c")), _shared("libsoftib-umad.so"), [*include_flags(), *flags])


def compile_verbs(to: Path = VERBS_LIBRARY, flags: Sequence[str] = ()) -> Path:
    """Compile ``libsoftib-verbs.so`` to ``to``, and beside it ``opened/libibverbs.so``, with
    extra ``flags``, unless they are current. Raises RuntimeError, for example if headers are missing."""
    missing = missing_headers()
    if missing:
        raise RuntimeError(f"no {', '.join(missing)}; install libibverbs-dev and librdmacm-dev (rdma-core-devel)")
    link = [*_shared(VERBS_SONAME), f"-Wl,--version-script={VERBS_SOURCES / 'versions.map'}"]
    library = _compile(to, sorted(VERBS_SOURCES.rglob("*.c")), link, [*include_flags(), *flags])
    opened = to.parent / OPENED_AS.parent.name / OPENED_AS.name
    _compile(opened, [], [*_shared(OPENED_AS.name), "-Wl,--no-as-needed", str(library)], flags)
    return library


def compile_mpi(to: Path = MPI_LIBRARY, flags: Sequence[str] = ()) -> Path:
    """Compile ``libsoftib-mpi.so`` to ``to`` with extra ``flags``, unless it is current. Raises RuntimeError, for
    example for a processor whose calling conventions are unknown."""
    return _compile(to, sorted(MPI_SOURCES.glob("*.c")), _shared("libsoftib-mpi.so"), flags)


def compile_wait(to: Path = WAIT, flags: Sequence[str] = ()) -> Path:
    """Compile the program ``softib-wait`` to ``to`` with extra ``flags``, unless it is current.
    Raises RuntimeError."""
    return _compile(to, sorted(WAIT_SOURCES.glob("*.c")), [], flags)


def compile_ipoib(to: Path = IPOIB, flags: Sequence[str] = ()) -> Path:
    """Compile the program ``softib-ipoib`` to ``to`` with extra ``flags``, and the library that it
    is linked with, unless they are current. Raises RuntimeError."""
    verbs = compile_verbs(to.with_name(VERBS_LIBRARY.name), flags)
    return _compile(to, sorted(IPOIB_SOURCES.glob("*.c")), [str(verbs)], flags)


def _shared(soname: str) -> list[str]:
    return ["-shared", f"-Wl,-soname,{soname}"]


LIBRARIES = (
    (compile_library, LIBRARY),
    (compile_verbs, VERBS_LIBRARY),
    (compile_mpi, MPI_LIBRARY),
    (compile_wait, WAIT),
    (compile_ipoib, IPOIB),
)
"""For each library or program: the function that compiles it, and its path in the package."""


_one_at_a_time = threading.RLock()


def _names_of(file: Path) -> dict[str, Any]:
    """Return the names that ``file`` of the package defines, without importing the package. A lock is held meanwhile,
    because runpy replaces ``__main__`` in sys.modules."""
    with _one_at_a_time:
        return runpy.run_path(str(file))


def _link_rates_header() -> str:
    """Return the text of ``link_rates.h``: the rows of :data:`softib.iba.link_speeds.SPEEDS` with the latencies
    of each generation's devices, and the widths."""
    table, catalogue = _names_of(LINK_SPEEDS), _names_of(CATALOGUE)
    speeds = [
        f"    {{ {s.lane_data_gbps!r}, {s.lane_gbps!r}, {s.speed_bit}, {s.ext_bit}, {s.ext2_bit}, {s.mlnx_bit}, "
        f"{catalogue['SWITCH_OF'][s.name].latency_ns}, {catalogue['ADAPTER_OF'][s.name].pair_latency_ns}, "
        f"{s.kernel_rate} }}, /* {s.name} */\n"
        for s in table["SPEEDS"]
    ]
    widths = [
        f"    [{bit}] = {lanes},\n" for lanes, bit in sorted(table["WIDTH_BITS"].items(), key=lambda item: item[1])
    ]
    return (
        "/* Written by softib.preload.build from softib/iba/link_speeds.py and softib/iba/catalogue, which say what "
        "the columns are. */\n"
        "static const struct link_speed {\n    double data_gbps, signal_gbps; /* of one lane */\n"
        "    unsigned char speed_bit, ext_bit, ext2_bit, mlnx_bit;\n    unsigned short switch_ns, adapter_ns, "
        "kernel_rate;\n"
        f"}} link_speeds[] = {{\n{''.join(speeds)}}};\n\n"
        f"static const unsigned char lanes_of_width[] = {{ /* by the bit of PortInfo.LinkWidthActive "
        f"*/\n{''.join(widths)}}};\n"
    )


def _management_header() -> str:
    """Return the text of ``management.h``: the constants of :mod:`softib.iba.constants` that
    ``libsoftib-umad.so`` uses."""
    c = _names_of(CONSTANTS)
    classes, vendor = c["MgmtClass"], c["VENDOR2_CLASSES"]
    numbers = {
        "RESPONSE_BIT": c["RESPONSE_BIT"],
        "TRAP_REPRESS": c["Method"].TRAP_REPRESS,
        "SUBN_ADM": classes.SUBN_ADM,
        "DEV_ADM": classes.DEV_ADM,
        "BIS": classes.BIS,
        "VENDOR2_FIRST": vendor[0],
        "VENDOR2_LAST": vendor[-1],
    }
    rows = "".join(f"    {name} = {int(number):#04x},\n" for name, number in numbers.items())
    return f"/* Written by softib.preload.build from softib/iba/constants.py. */\nenum {{\n{rows}}};\n"


def generated_headers() -> dict[str, str]:
    """Return the text of each header that is generated from tables in Python, by file name."""
    return {"link_rates.h": _link_rates_header(), "management.h": _management_header()}


def include_flags() -> list[str]:
    """Write the headers of :data:`GENERATED` that are not current; return the compiler flags for
    their folder."""
    with _one_at_a_time:
        for name, text in generated_headers().items():
            file = GENERATED / name
            if not file.is_file() or file.read_text() != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                scratch = file.with_name(f".{file.name}.{os.getpid()}")
                scratch.write_text(text)
                scratch.replace(file)
    return [f"-I{GENERATED}"]


def why_no_verbs() -> str:
    """Return one line that states why ``libsoftib-verbs.so`` does not exist, and the fix; empty if it exists."""
    return "" if VERBS_LIBRARY.is_file() else not_built([VERBS_LIBRARY.name])


def why_no_umad() -> str:
    """Return one line that states why ``libsoftib-umad.so`` does not exist (it needs only the compiler), and the
    fix."""
    return "" if LIBRARY.is_file() else not_built([LIBRARY.name])


def why_no_ipoib() -> str:
    """Return one line that states why ``softib-ipoib`` does not exist (its requirements are those of
    ``libsoftib-verbs.so``), and the fix."""
    return "" if IPOIB.is_file() else not_built([VERBS_LIBRARY.name, IPOIB.name])


def not_built(names: Sequence[str], error: str = "") -> str:
    """Return one line that states that the libraries ``names`` are not built, whether the compiler or headers are
    missing (if neither, the first line of ``error``), and the fix."""
    missing = ["C compiler"] if not compiler() else missing_headers() if VERBS_LIBRARY.name in names else []
    lacks = f"there is no {' and no '.join(missing)}; install {INSTALL} and " if missing else ""
    if not missing and error:
        lacks = f"{error.splitlines()[0].rstrip(':')}; "
    several = "are" if len(names) > 1 else "is"
    return f"{', '.join(names)} {several} not built: {lacks}run 'python -m softib.preload.build'"


def missing_headers() -> list[str]:
    """Return the headers of :data:`HEADERS` that the compiler does not find."""
    cc = compiler()
    if cc is None:
        return []
    return [h for h in HEADERS if _run([*cc.split(), "-E", "-x", "c", "-"], f"#include <{h}>\n").returncode]


def _digest(sources: Sequence[Path], command: Sequence[str]) -> bytes:
    """Return a digest of 20 bytes over a library's compile command and every file in the folders of
    its sources."""
    digest = hashlib.sha1(repr(list(command)).encode() + Path(__file__).read_bytes(), usedforsecurity=False)
    digest.update("".join(generated_headers().values()).encode())
    folders = {p.parent for p in sources} | {HERE} | {p.parent.parent for p in sources}
    for file in sorted(p for folder in folders for p in folder.iterdir() if p.suffix in (".c", ".h", ".map")):
        digest.update(str(file.relative_to(HERE)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.digest()


def _run(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True)


def _compile(to: Path, sources: Sequence[Path], link: Sequence[str], flags: Sequence[str]) -> Path:
    cc = compiler()
    if cc is None:
        raise RuntimeError("no C compiler found; install gcc, or set CC to a compiler")
    digest = _digest(sources, [cc, *FLAGS, *link, *flags])
    if to.is_file() and digest in to.read_bytes():
        return to
    to.parent.mkdir(parents=True, exist_ok=True)
    unfinished = to.with_name(f".{to.name}.{os.getpid()}")
    from concurrent.futures import ThreadPoolExecutor  # slow to import (logging); only compilation needs it

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        if not sources:  # zig cannot link a library without an object file
            sources = [Path(scratch, "empty.c")]
            sources[0].write_text("")
        objects = [str(Path(scratch, f"{p.parent.name}-{p.stem}.o")) for p in sources]
        steps = [[*cc.split(), *FLAGS, *flags, "-c", str(p), "-o", o] for p, o in zip(sources, objects, strict=True)]
        done = [*pool.map(_run, steps)]
        done.append(
            _run(
                [
                    *cc.split(),
                    "-o",
                    str(unfinished),
                    *objects,
                    "-Wl,-z,now",
                    f"-Wl,--build-id=0x{digest.hex()}",
                    *link,
                    *flags,
                    "-ldl",
                    "-lpthread",
                    "-lm",
                ]
            )
        )
    for one in done:
        if one.returncode:
            unfinished.unlink(missing_ok=True)
            raise RuntimeError(f"{cc} failed:\n{one.stderr}")
    unfinished.replace(to)
    return to


def main() -> int:
    """Build all libraries and programs. Return the exit code: 1 after a failure, which is reported on stderr."""
    failed = 0
    for compile_one, library in LIBRARIES:
        try:
            print(compile_one())
        except RuntimeError as error:
            print(f"{library.name} is not built: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
