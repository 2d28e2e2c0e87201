"""Compiling the plain way: by Numba's documented interface alone, with Numba's own cache in our folder."""

import pytest

from .lab import BOTH, edit, run, write

PLAIN = {"SOFTIB_JIT": "plain"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A package whose plain cache is full."""
    root = tmp_path_factory.mktemp("plain")
    write(root)
    assert run(root, **PLAIN) == BOTH
    return root


def kept(root):
    """Files of Numba's cache, each with what it holds."""
    return {p.relative_to(root): p.read_bytes() for p in sorted((root / "cache").rglob("*.nb[ic]"))}


def test_what_is_kept_is_loaded_and_nothing_lies_beside_the_sources(filled):
    before = kept(filled)
    assert len(before) == 4, "an index and machine code for each kernel that Python calls"
    assert run(filled, **PLAIN) == BOTH[:2]
    assert kept(filled) == before
    assert not list((filled / "pkg").rglob("*.nb[ic]"))


def test_an_edited_callee_in_another_file_gives_its_new_result(filled):
    """Numba's own cache looks at the file of the kernel alone."""
    edit(filled, "low_kernels.py", "x * 2", "x * 3")
    assert run(filled, **PLAIN) == ["87", "2", "pkg.kernels.total"]
    edit(filled, "low_kernels.py", "x * 3", "x * 2")


@pytest.mark.slow
def test_damaged_files_cost_compile_time_only(filled):
    for path in (filled / "cache").rglob("*.nb[ic]"):
        path.write_bytes(b"junk")
    assert run(filled, **PLAIN) == BOTH
    assert run(filled, **PLAIN) == BOTH[:2]


@pytest.mark.slow
def test_a_cache_that_cannot_be_is_one_line(filled):
    blocked = filled / "blocked"
    blocked.write_text("a file")
    output = run(filled, SOFTIB_CACHE_DIR=str(blocked), **PLAIN)
    assert output[:4] == BOTH and len(output) == 5 and "compiles them again" in output[4], output


@pytest.mark.slow
def test_no_room_is_one_line(filled):
    full = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    output = run(filled, full, SOFTIB_CACHE_DIR=str(filled / "other"), **PLAIN)
    assert output[:4] == BOTH and len(output) == 5 and "compiles them again" in output[4], output


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["tables", pytest.param("units", marks=pytest.mark.slow)])
def test_one_accelerator_alone_gives_the_same(filled, setting):
    alone = {"SOFTIB_JIT": setting, "SOFTIB_CACHE_DIR": str(filled / setting)}
    assert run(filled, **alone) == BOTH
    assert run(filled, **alone) == BOTH[:2]
