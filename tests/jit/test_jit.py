"""The kernel cache: what a kernel's machine code depends on is seen, wherever it stands, and nothing else costs anything."""

import importlib
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from numba import typeof

from softib import jit
from softib.jit import identity, store

from .lab import BOTH, MAIN, cached, edit, environment, run, write


@pytest.fixture
def package(tmp_path):
    """A package of two kernel files, constants, and a table; its cache is full."""
    write(tmp_path)
    assert run(tmp_path)[:2] == ["81", "2"]
    return tmp_path


def test_what_is_unchanged_is_not_compiled_again(package):
    """Nor does a process that only loads import what Numba's compiler needs: 0.15 s of the start of each running fabric."""
    before = [(p, p.read_bytes()) for p in cached(package)]
    assert len(before) == 2, "one file for each kernel that Python calls"
    shown = MAIN + 'print("numba.np.linalg" in sys.modules)\n'
    assert run(package, main=shown) == ["81", "2", "False"]
    assert [(p, p.read_bytes()) for p in cached(package)] == before


def identities(root):
    """The identities of ``total`` and ``alone`` and the Numba type of the table, of the package as it stands now."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "pkg"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    identity.environment.cache_clear()
    identity._sources.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        kernels, layout = importlib.import_module("pkg.kernels"), importlib.import_module("pkg.layout")
    found = identity.identity(kernels.total), identity.identity(kernels.alone), typeof(layout.tables())
    identity.environment.cache_clear()
    return found


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """The package alone; nothing was run."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("low_kernels.py", "x * 2", "x * 3"),  # a callee in another file
        ("low_kernels.py", "@kernel", "@kernel(fastmath=True)"),
        ("iba.py", "Field(1)", "Field(2)"),  # a constant that a constant is made of
        ("kernels.py", "AT = LID.byte", "AT = LID.byte + 1"),
        ("kernels.py", "AT = LID.byte", "AT = True"),  # equal to 1, but of another type
        ("kernels.py", "s = 0", "s = 1"),
        ("kernels.py", "WEIGHTS = np.array([1, 2])", "WEIGHTS = np.array([1, 3])"),
        ("kernels.py", "WEIGHTS = np.array([1, 2])", "WEIGHTS = np.array([1, 2], np.int32)"),
        ("kernels.py", "OUT = 3", "OUT = 4"),  # an enum, of which nothing is known but its package
        ("kernels.py", "scale(t.a[i])", "unused(t.a[i])"),
    ],
)
def test_an_edit_that_matters_is_seen_where_it_matters(sources, file, old, new):
    total, alone, types = identities(sources)
    edit(sources, file, old, new)
    after = identities(sources)
    assert after[0] != total and after[1:] == (alone, types)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"a b"', '"b a"'),  # the same columns at other places
        ("b=np.arange(4)", "b=np.arange(4, dtype=np.uint8)"),
        ("b=np.arange(4) * 10", "b=(np.arange(8) * 5)[::2]"),  # not contiguous
        ("b=np.arange(4) * 10", "b=np.zeros((4, 2))"),
    ],
)
def test_another_layout_of_a_table_is_another_type(sources, old, new):
    edit(sources, "kernels.py", "+ Direction.OUT", "+ 3")  # an enum counts with its whole package
    total, alone, types = identities(sources)
    edit(sources, "layout.py", old, new)
    after = identities(sources)
    assert after[:2] == (total, alone) and after[2] != types and str(after[2]) != str(types)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("low_kernels.py", "return x\n\n@", "return x + 1\n\n@"),  # a kernel that neither calls
        ("iba.py", "SPARE = 5", "SPARE = 6"),
        ("kernels.py", "'''Sum.'''", "'''The sum.'''"),
        ("kernels.py", "import enum", "import enum  # for Way\n\n\n"),
    ],
)
def test_an_edit_elsewhere_changes_nothing(sources, file, old, new):
    edit(sources, "kernels.py", "+ Direction.OUT", "+ 3")  # an enum counts with its whole package
    before = identities(sources)
    edit(sources, file, old, new)
    assert identities(sources) == before


@pytest.mark.parametrize("what", ["numba.__version__", "llvmlite.__version__", "numpy.__version__", "sys.version"])
def test_another_numba_llvm_numpy_or_python_changes_all(sources, monkeypatch, what):
    total, alone, _ = identities(sources)
    module, name = what.split(".")
    monkeypatch.setattr(sys.modules[module], name, "9.9")
    after = identities(sources)
    assert after[0] != total and after[1] != alone


def test_settings_of_numba_that_change_code_change_all(sources, monkeypatch):
    before = identities(sources)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert identities(sources) == before
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    after = identities(sources)
    assert after[0] != before[0] and after[1] != before[1]


def test_every_kernel_freezes_only_what_is_known_by_value():
    """Nothing in softib needs the coarse answer (all sources of the package), so no edit compiles everything."""
    for path in sorted(
        p for p in jit.functions.PACKAGE.rglob("*.py") if jit.functions.is_kernel_file(p) and p.name != "__init__.py"
    ):
        relative = path.relative_to(jit.functions.PACKAGE.parent).with_suffix("")
        module = importlib.import_module(".".join(relative.parts))
        for k in [v for v in vars(module).values() if isinstance(v, jit.Kernel)]:
            coarse = {n: v for n, v in identity.frozen_of(k).items() if identity.is_coarse(v)}
            assert not coarse, f"{identity.title(k)}: {coarse}"


def test_an_edited_callee_gives_its_new_result(package):
    edit(package, "low_kernels.py", "x * 2", "x * 3")
    assert run(package) == ["87", "2", "pkg.kernels.total"]
    assert run(package) == ["87", "2"]


@pytest.mark.parametrize(
    "damage",
    [
        b"junk",
        "one byte",
        pytest.param(b"", marks=pytest.mark.slow),
        pytest.param(bytes(range(256)) * 40, marks=pytest.mark.slow),
        pytest.param("half", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_file_costs_compile_time_only(package, damage):
    whole = {p: p.read_bytes() for p in cached(package)}
    for path, data in whole.items():
        middle = len(data) // 2
        if damage == "half":
            path.write_bytes(data[:middle])
        elif damage == "one byte":
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        else:
            path.write_bytes(damage)
    assert run(package) == BOTH
    assert run(package) == BOTH[:2], "the damaged files are still there"


def test_a_cache_that_cannot_be_is_one_line_and_no_other_place_is_taken(package):
    blocked = package / "blocked"
    blocked.write_text("a file")
    output = run(package, SOFTIB_CACHE_DIR=str(blocked))
    assert output[:4] == BOTH and len(output) == 5 and "compiles them again" in output[4], output
    assert not [p for p in package.rglob("*") if p.suffix in (".nbi", ".nbc")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("of", ["folder", "files"])
def test_code_that_another_user_could_have_written_is_not_loaded(package, of):
    """Machine code in the cache runs as who loads it: a root that keeps HOME must not run what a user left there."""
    before = {path: path.read_bytes() for path in cached(package)}
    folder = next(iter(before)).parent
    for path in [folder] if of == "folder" else before:
        os.chown(path, 65533, 65533)
    output = run(package)
    assert output[:4] == BOTH, "compiled, not loaded"
    if of == "folder":
        assert len(output) == 5 and "belongs to uid 65533" in output[4] and "compiles them again" in output[4], output
        assert {path: path.read_bytes() for path in cached(package)} == before, "and nothing is put there"
    else:
        assert len(output) == 4 and {path.stat().st_uid for path in cached(package)} == {0}, "they are replaced"
        assert run(package) == BOTH[:2]


def test_a_folder_that_an_umask_opened_to_the_group_is_closed(package):
    folder = cached(package)[0].parent
    folder.chmod(0o775)
    assert run(package) == BOTH[:2]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    cached(package)[0].chmod(0o664)  # whoever is in the group may have written it meanwhile
    assert len(run(package)) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in cached(package)} == {0o644}


def test_no_room_is_one_line(package):
    full = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    output = run(package, full, SOFTIB_CACHE_DIR=str(package / "other"))
    assert output[:4] == BOTH and len(output) == 5 and "compiles them again" in output[4], output
    assert not [p for p in (package / "other" / "kernels").iterdir() if p.suffix != ".lock"], (
        "a part of a file was left"
    )


def test_processes_that_begin_at_once_compile_it_once(package):
    """Three with an empty cache: one compiles a kernel, the others load what it kept."""
    env = {**environment(package), "SOFTIB_CACHE_DIR": str(package / "shared")}
    program = textwrap.dedent(MAIN).replace("import numba\n", "import numba\ninput()\n")
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=package,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for one in programs:
        one.stdin.write("now\n")
        one.stdin.flush()
    output = [one.communicate(timeout=500)[0].split() for one in programs]
    assert [fields[:2] for fields in output] == [BOTH[:2]] * 3
    assert sorted(name for fields in output for name in fields[2:]) == BOTH[2:]


def test_what_nobody_used_is_deleted_and_nothing_else(tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr(store, "KEEP_FILES", 3)

    def make(name, days, folder=False):
        path = tmp_path / name
        if folder:
            path.mkdir()
            (path / "kernel.nbc").write_bytes(b"")
            os.utime(path / "kernel.nbc", (now - days * 86400,) * 2)
        else:
            path.write_bytes(b"")
        os.utime(path, (now - days * 86400,) * 2)

    make("ancient.code", 90)
    make("half-written.part", 1)
    make("0123456789abcdef", 70, folder=True)  # of a softib that kept a folder for each version
    make("fedcba9876543210", 50, folder=True)
    make("month.code", 30)
    make("week.code", 7)
    make("day.code", 1)
    make("now.code", 0)
    store.prune(tmp_path, now)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["day.code", "now.code", "week.code"]


def test_a_file_that_is_read_is_young_again(tmp_path, monkeypatch):
    monkeypatch.setenv("SOFTIB_CACHE_DIR", str(tmp_path))
    kept = store.Store()
    kept.write("k", b"code")
    path = tmp_path / "kernels" / "k.code"
    os.utime(path, (1, 1))
    assert kept.read("k") == b"code" and path.stat().st_mtime > time.time() - 3600
    assert kept.read("other") is None


def test_tables_of_one_layout_share_a_type_and_others_do_not():
    """Making a type costs more than many a kernel; a table is made for many calls."""
    one = jit.table("One", "a b")
    first, second = one(np.zeros(3), np.zeros((2, 2), np.uint8)), one(np.ones(9), np.ones((5, 1), np.uint8))
    assert typeof(first) is typeof(second)
    others = [
        one(np.zeros(3, np.float32), first.b),
        one(first.b, first.a),
        one(np.zeros(6)[::2], first.b),
        jit.table("Two", "a b")(first.a, first.b),
    ]
    assert len({typeof(t) for t in (first, *others)}) == 5


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_a_process_that_can_write_nowhere_reads_the_usual_cache(tmp_path):
    """As in a container whose file systems are read-only: `up` ended with "No usable temporary directory"."""
    code = "from softib.jit.store import cache_dir; print(cache_dir())"
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("SOFTIB_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR")
    }
    done = subprocess.run(
        [
            "bwrap",
            "--unshare-all",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--chdir",
            "/",
            sys.executable,
            "-c",
            code,
        ],
        env={**env, "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{tmp_path}/.cache/softib/kernels\n", done.stderr


NO_DESCRIPTORS = """
    import errno, os, sys
    from pkg.kernels import alone, total
    from pkg.layout import tables
    from softib.jit import on_compiling
    begun, held, full = [], [], True
    on_compiling(lambda unit, done, of: of < 0 or begun.append(unit))

    def take_all(event, args):
        if event != "open":
            return
        while held:
            os.close(held.pop())
        if full and str(args[0]).endswith(".code"):
            try:
                while True:
                    held.append(os.dup(0))
            except OSError as error:
                assert error.errno == errno.EMFILE

    sys.addaudithook(take_all)
    try:
        total(tables(), 4)
    except OSError as error:
        print(errno.errorcode[error.errno])
    full = False
    print(int(total(tables(), 4)), int(alone(1)), *begun)
    """


def test_a_process_without_descriptors_compiles_nothing_that_is_there(package):
    """The files of the cache cannot be opened, and then they can. (To compile the largest kernels would take a minute.)"""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    assert run(package, before=limit, main=NO_DESCRIPTORS) == ["EMFILE", "81", "2"]
