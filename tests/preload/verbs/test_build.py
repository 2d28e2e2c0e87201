"""Building the preload libraries: without a warning in our tests, whatever a user's compiler warns of, and with words for what lacks."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from softib.errors import InputError
from softib.live.launch import preload
from softib.preload import build
from tests.preload.verbs.applications import A

COMPILERS = ("gcc", "clang", "clang-14", "clang-16", "clang-19")
STRICT = ("-Werror", "-Wshadow", "-Wundef", "-Wvla", "-Wpointer-arith")


def sources() -> list[Path]:
    return sorted(
        [
            *build.SOURCES.glob("*.c"),
            *build.MPI_SOURCES.glob("*.c"),
            *build.WAIT_SOURCES.glob("*.c"),
            *build.IPOIB_SOURCES.glob("*.c"),
            *build.VERBS_SOURCES.rglob("*.c"),
        ]
    )


def complaints(cc: str, *flags: str) -> str:
    if build.missing_headers():
        pytest.skip("libibverbs-dev and librdmacm-dev are not installed")
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(
            lambda s: (
                subprocess.run(
                    [cc, *build.FLAGS, *build.include_flags(), *STRICT, *flags, str(s)], capture_output=True, text=True
                ).stderr
            ),
            sources(),
        )
        return "".join(done)


@pytest.mark.parametrize(
    "cc", [pytest.param(c, marks=() if c == "gcc" else pytest.mark.slow) for c in COMPILERS if shutil.which(c)]
)
def test_no_compiler_warns(cc):
    assert complaints(cc, "-fsyntax-only") == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "cc", [pytest.param(c, marks=() if c == "gcc" else pytest.mark.slow) for c in COMPILERS if shutil.which(c)]
)
def test_no_compiler_warns_when_it_optimises(cc):
    assert complaints(cc, "-O3", "-c", "-o", "/dev/null") == ""


FIRST_MEMBER = "the caller owns the object and frees it by this address: libibverbs' structure is its first member"
FALSE_ALARMS = {
    (r"-Wanalyzer-malloc-leak", r"return &\w+->\w+;|return d \? &d->dm : NULL;"): FIRST_MEMBER,
    (
        r"-Wanalyzer-malloc-leak",
        r"slot->(sge|data)",
    ): "under the test that the slot has none; slots are freed with their QP",
    (r"-Wanalyzer-null-dereference", r"receive->wr_id"): "its callers hold the lock and have seen a receive",
}
"""(warning, source line) → why gcc's analyser is wrong there."""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="the analyser is gcc's")
def test_the_analyser_finds_nothing():
    """``gcc -fanalyzer``: leaks, double frees, uses after free, NULL dereferences and reads of what was never written, on every path."""
    said = complaints("gcc", "-fanalyzer", "-c", "-o", "/dev/null", "-Wno-error")
    left = []
    for alarm in re.finditer(r"^(\S+):(\d+):\d+: warning: .*\[(-Wanalyzer\S+)\]$", said, re.M):
        file, number, kind = alarm.groups()
        source = Path(file).read_text().splitlines()[int(number) - 1]
        if not any(kind == known and re.search(pattern, source) for known, pattern in FALSE_ALARMS):
            left.append(f"{alarm[0]} | {source.strip()}")
    assert not left, "\n".join(left)


def test_the_analyser_would_speak(tmp_path):
    source = tmp_path / "leak.c"
    source.write_text("#include <stdlib.h>\nint f(void) { int *p = malloc(4); return p ? 1 : 0; }\n")
    said = subprocess.run(
        ["gcc", *build.FLAGS, "-fanalyzer", "-c", "-o", "/dev/null", str(source)], capture_output=True, text=True
    )
    assert "-Wanalyzer-malloc-leak" in said.stderr


def test_a_warning_does_not_keep_anybody_from_installing(tmp_path, monkeypatch):
    """A compiler that warns of every file, as a newer one may of some."""
    assert not any("error" in flag for flag in build.FLAGS)
    cc = build.compiler() or pytest.skip("no C compiler")
    fussy = tmp_path / "fussy"
    fussy.write_text(f'#!/bin/sh\nexec {cc} -Wall -Wextra -Wconversion "$@"\n')
    fussy.chmod(0o755)
    monkeypatch.setenv("CC", str(fussy))
    assert build.compile_library(tmp_path / "x.so").is_file()


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    """No compiler, no headers: each with what to install."""
    monkeypatch.setattr(build, "VERBS_LIBRARY", tmp_path / "none.so")
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "none-either.so")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert "there is no C compiler; install gcc libibverbs-dev librdmacm-dev and run" in build.why_no_verbs()
    monkeypatch.setattr(build, "compiler", lambda: "cc")
    monkeypatch.setattr(build, "_run", lambda arguments, text="": subprocess.CompletedProcess(arguments, 1, "", ""))
    assert "no infiniband/verbs.h and no rdma/rdma_cma.h; install" in build.why_no_verbs()
    assert "\n" not in build.why_no_verbs()


def test_the_installation_says_in_one_line_what_is_missing(tmp_path, monkeypatch):
    """The build's hook itself, in a copy without libraries, by a shell without a compiler."""
    hooks = pytest.importorskip("hatchling.builders.hooks.plugin.interface")
    root = Path(__file__).parents[3]
    if not (root / "hatch_build.py").is_file():
        pytest.skip("no checkout")
    spec = importlib.util.spec_from_file_location("softib_hatch_build", root / "hatch_build.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert issubclass(made.PreloadHook, hooks.BuildHookInterface)
    shutil.copytree(root / "src/softib/preload", tmp_path / "src/softib/preload", ignore=shutil.ignore_patterns("lib"))
    shutil.copytree(root / "src/softib/iba", tmp_path / "src/softib/iba")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    told = []
    hook = made.PreloadHook(str(tmp_path), {}, None, None, str(tmp_path), "wheel", None)
    monkeypatch.setattr(hook, "_tell", told.append)
    data = {"artifacts": []}
    hook.initialize("standard", data)
    assert data == {"artifacts": []}, "a wheel without them is pure"
    assert told == [
        "softib is installed without preload libraries: libsoftib-umad.so, libsoftib-verbs.so, libsoftib-mpi.so, softib-wait, softib-ipoib are "
        "not built: there is no C compiler; install gcc libibverbs-dev librdmacm-dev and run 'python -m softib.preload.build'"
    ]


def test_what_a_program_without_the_umad_library_gets(tmp_path, monkeypatch):
    monkeypatch.setattr(preload, "LIBRARY", tmp_path / "none.so")
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "libsoftib-umad.so")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(InputError) as caught:
        preload.umad_library()
    assert str(caught.value).startswith("libsoftib-umad.so is not built: there is no C compiler; install gcc ")


def test_the_build_says_what_lacks_and_fails(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "softib.preload.build"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path), "CC": ""},
    )
    assert done.returncode == 1 and done.stderr.count("is not built: no C compiler found; install gcc") == 5, done
    assert "libsoftib-verbs.so is not built" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    (
        ["ibv_devices"],
        ["/usr/bin/python3", "-c", "import ctypes as c; c.CDLL('libibverbs.so.1').ibv_get_device_list(None)"],
    ),
    ids=("linked", "loaded"),
)
def test_without_the_library_one_line_says_so(apps, tmp_path, arguments):
    """Not an empty table: where the program is linked to libibverbs, and where it loads it later."""
    if not shutil.which(arguments[0], path="/usr/bin:/usr/sbin"):
        pytest.skip(f"{arguments[0]} is not installed")
    code = (
        "import sys; from pathlib import Path; import softib.preload.build as b, softib.live.launch.preload as p\n"
        f"b.VERBS_LIBRARY = Path({str(tmp_path / 'none.so')!r}); p.PRELOADS = (b.LIBRARY, b.VERBS_LIBRARY)\n"
        "from softib.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--node", A, "--", *arguments], env=apps.env, capture_output=True, text=True
    )
    lines = [line for line in done.stderr.splitlines() if "no InfiniBand devices for this program" in line]
    assert len(lines) == 1 and "python -m softib.preload.build" in lines[0], done.stderr
    quiet = subprocess.run(
        [sys.executable, "-c", code, "run", "--node", A, "--", "true"], env=apps.env, capture_output=True, text=True
    )
    assert quiet.stderr == ""


def test_threads_get_the_same_headers():
    """runpy exchanges ``sys.modules['__main__']``: two threads at once saw each other's module."""
    with ThreadPoolExecutor(8) as pool:
        assert len({str(h) for h in pool.map(lambda _: build.generated_headers(), range(64))}) == 1


def test_headers_come_from_tables_that_need_no_installed_package():
    """The package's build writes them before its dependencies are there: -S leaves out every installed package."""
    code = "import runpy; print(*runpy.run_path('src/softib/preload/build.py')['generated_headers']())"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["link_rates.h", "management.h"], done.stderr
