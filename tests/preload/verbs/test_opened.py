"""libibverbs by whatever way a program gets it: linked, opened by name, through a provider; and what it exports, against the stock one."""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from softib.preload import build
from tests.preload.verbs.applications import A
from tests.preload.verbs.c_programs import PROGRAMS

NAMES = ("libibverbs.so", "libibverbs.so.1")
MULTIARCH = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
HISTORICAL = "IBVERBS_1.0"
"""Structures of before 2008. libibverbs still has those 37 functions; no program of today asks for them."""


@pytest.fixture
def stock() -> Path:
    """The system's own libibverbs, by its path: nothing stands in for it."""
    return next((p for d in MULTIARCH if (p := Path(d, NAMES[1])).is_file()), None) or pytest.skip("no libibverbs.so.1")


@pytest.fixture
def ours() -> Path:
    if not build.VERBS_LIBRARY.is_file():
        pytest.skip(build.why_no_verbs())
    return build.VERBS_LIBRARY


def exports(library: Path) -> dict[str, set[str]]:
    """Function → its versions ("" for none), as binutils reads them."""
    done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True)
    found: dict[str, set[str]] = {}
    for name in (line.split()[-1] for line in done.stdout.splitlines() if " A " not in line):
        plain, _, version = name.partition("@")
        found.setdefault(plain, set()).add(version.lstrip("@"))
    return found


def test_every_function_of_stock_libibverbs_is_exported(stock, ours):
    """A program that finds one of ours finds all of them: under its version, or without one, which the loader takes for any."""
    mine, theirs = exports(ours), exports(stock)
    assert len(theirs) > 120
    lacking = {
        f"{name}@{version}"
        for name, versions in theirs.items()
        for version in versions
        if not {version, ""} & mine.get(name, set()) and not (version == HISTORICAL and name in mine)
    }
    assert lacking == set()


def test_words_and_rates_are_those_of_stock_libibverbs(stock, ours):
    one, other = ctypes.CDLL(str(stock)), ctypes.CDLL(str(ours))
    for name in ("ibv_node_type_str", "ibv_port_state_str", "ibv_event_type_str", "ibv_wc_status_str"):
        for library in (one, other):
            getattr(library, name).restype = ctypes.c_char_p
        newer = 20 if name == "ibv_event_type_str" else None  # a change of speed, since rdma-core 57
        values = [v for v in (*range(-3, 40), 2**31 - 1) if v != newer]
        assert [getattr(other, name)(v) for v in values] == [getattr(one, name)(v) for v in values], name
    mbps = [int(one.ibv_rate_to_mbps(code)) for code in range(64)]
    ranges = {
        "ibv_rate_to_mult": range(-3, 64),
        "ibv_rate_to_mbps": range(-3, 64),
        "mult_to_ibv_rate": range(-3, 1000),
        "mbps_to_ibv_rate": [v + d for v in mbps for d in (-1, 0, 1)],
    }
    for name, values in ranges.items():
        assert [getattr(other, name)(v) for v in values] == [getattr(one, name)(v) for v in values], name


def test_structures_of_the_kernel_are_copied_as_stock_libibverbs_does(stock, ours):
    one, other = ctypes.CDLL(str(stock)), ctypes.CDLL(str(ours))
    draw = random.Random(1)
    for name in ("qp_attr_from", "ah_attr_from", "path_rec_from", "path_rec_to"):
        for _ in range(20):
            source, start = draw.randbytes(512), draw.randbytes(512)
            made = []
            for library in (one, other):
                to = ctypes.create_string_buffer(start, 512)
                getattr(library, f"ibv_copy_{name}_kern")(to, ctypes.create_string_buffer(source, 512))
                made.append(to.raw)
            assert made[0] != start and made[0] == made[1], name


def test_sysfs_files_are_read_as_stock_libibverbs_reads_them(stock, ours, tmp_path, monkeypatch):
    texts = {"plain": b"4: ACTIVE\n", "open": b"no newline", "empty": b"", "two": b"a\nb\n", "newline": b"\n"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    monkeypatch.setenv("SYSFS_PATH", "/a/b//")
    results = []
    for library in (ctypes.CDLL(str(stock)), ctypes.CDLL(str(ours))):
        rows = []
        for name in (*texts, "absent"):
            for size in range(1, 14):
                into = ctypes.create_string_buffer(b"\xee" * 16, 16)
                n = library.ibv_read_sysfs_file(os.fsencode(tmp_path), name.encode(), into, ctypes.c_size_t(size))
                rows.append((name, size, n, into.value if n > 0 else b""))
        library.ibv_get_sysfs_path.restype = ctypes.c_char_p
        results.append((rows, library.ibv_get_sysfs_path()))
    assert results[0] == results[1] and results[0][1] == b"/a/b"


def compiled(to: Path, source: str, *flags: str) -> Path:
    cc = build.compiler() or pytest.skip("no C compiler")
    text = to.with_name(f"{to.name}.c")
    text.write_text(source)
    done = subprocess.run([*cc.split(), "-D_GNU_SOURCE", "-o", to, text, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return to


def preloaded(program: Path, *arguments: str, ours: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LD_PRELOAD": str(ours), "LD_LIBRARY_PATH": str(build.OPENED_AS.parent), "SOFTIB_QUIET": "1"}
    return subprocess.run([program, *arguments], env=env, capture_output=True, text=True)


LINKED = ("-Wl,--no-as-needed", "-libverbs", "-lrdmacm")


@pytest.mark.parametrize(
    ("flags", "names"),
    (
        ((), NAMES),
        (LINKED, NAMES),
        (("-Wl,--enable-new-dtags,-rpath,STOCK",), NAMES),
        ((*LINKED, "-Wl,--disable-new-dtags,-rpath,STOCK"), NAMES[1:]),
    ),
    ids=("opened", "linked-and-opened", "runpath", "rpath"),
)
def test_a_program_gets_one_libibverbs_however_it_asks(apps, stock, tmp_path, flags, names):
    """The loader is the oracle: one address of ibv_get_device_list, whichever name the program opens and wherever its RPATH leads."""
    if build.missing_headers():
        pytest.skip("libibverbs-dev is not installed")
    source = (PROGRAMS / "opened.c").read_text()
    program = compiled(tmp_path / "p", source, "-ldl", *(f.replace("STOCK", str(stock.parent)) for f in flags))
    done = subprocess.run(apps.on(A, str(program), *names), env=apps.env, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{name}: one instance, 1 devices" for name in names], done


def test_providers_and_librdmacm_open_on_it(apps):
    """libmlx5 asks for sixty private functions of libibverbs as it is opened, librdmacm for readers of sysfs."""
    code = (
        "import ctypes as c\n"
        "for name in ('libibverbs.so.1', 'libmlx5.so.1', 'libefa.so.1'): c.CDLL(name, c.RTLD_GLOBAL)\n"
        "cm, n = c.CDLL('librdmacm.so.1'), c.c_int()\n"
        "cm.rdma_get_devices.restype = c.c_void_p\n"
        "print(bool(cm.rdma_get_devices(c.byref(n))), n.value)"
    )
    done = subprocess.run(apps.on(A, "/usr/bin/python3", "-c", code), env=apps.env, capture_output=True, text=True)
    if "No such file" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.stdout == "True 1\n", done


def test_a_provider_of_an_rdma_core_to_come_loads(ours, tmp_path):
    """A library and a program of another number of IBVERBS_PRIVATE_* and a later public version, linked as distributions link (BIND_NOW)."""
    (tmp_path / "map").write_text(
        "IBVERBS_1.19 { global: ibv_later; };\nIBVERBS_PRIVATE_77 { global: verbs_set_ops; verbs_register_driver_77; };\n"
    )
    fake = compiled(
        tmp_path / "libibverbs.so.1",
        "void verbs_set_ops(void) {} void verbs_register_driver_77(void) {} void ibv_later(void) {}",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libibverbs.so.1",
        f"-Wl,--version-script={tmp_path / 'map'}",
    )
    calls = "void verbs_set_ops(void); void verbs_register_driver_77(void); {}int main(void) {{ verbs_register_driver_77(); verbs_set_ops(); {}return 0; }}"
    program = compiled(tmp_path / "p", calls.format("", ""), str(fake), "-Wl,-z,now")
    done = preloaded(program, ours=ours)
    assert (done.returncode, done.stderr) == (0, "")
    later = compiled(tmp_path / "l", calls.format("void ibv_later(void); ", "ibv_later(); "), str(fake), "-Wl,-z,now")
    done = preloaded(later, ours=ours)
    assert re.search(r"symbol lookup error: .*ibv_later", done.stderr), "a function that is not here is named"


def test_the_folder_of_names_goes_first_once_and_not_to_the_stock_library(apps):
    def path(*words: str, **env: str) -> str:
        done = subprocess.run(
            apps.arguments("run", *words), env={**apps.env, **env}, cwd=apps.folder, capture_output=True, text=True
        )
        return done.stdout.strip() if not done.returncode else f"rc {done.returncode}: {done.stderr}"

    folder, shown = str(build.OPENED_AS.parent), ("--", "printenv", "LD_LIBRARY_PATH")
    assert path(*shown, LD_LIBRARY_PATH="/opt/a::/opt/b") == f"{folder}:/opt/a:/opt/b"
    assert path("--", *apps.arguments("run", *shown), LD_LIBRARY_PATH="/opt/a") == f"{folder}:/opt/a"
    stock = path("--stock-preload", *shown, LD_LIBRARY_PATH="/opt/a")
    assert stock == "/opt/a" or "ibsim-utils" in stock
