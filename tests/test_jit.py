"""The kernel cache: an edited callee in another file must be seen (Numba's own cache does not)."""

import os
import subprocess
import sys
import textwrap

import pytest


def write_package(root, factor):
    package = root / "pkg"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "low_kernels.py").write_text(
        textwrap.dedent(f"""
        from softib.jit import kernel

        @kernel
        def scale(x):
            return x * {factor}
        """)
    )
    (package / "kernels.py").write_text(
        textwrap.dedent("""
        from pkg.low_kernels import scale
        from softib.jit import kernel

        @kernel
        def total(n):
            s = 0
            for i in range(n):
                s += scale(i)
            return s
        """)
    )


def run(root):
    code = (
        "import pathlib, sys; import softib.jit as jit; jit.PACKAGE_DIR = pathlib.Path('pkg');"
        "jit.sources_hash.__wrapped__.__defaults__ = (pathlib.Path('pkg'),);"
        "from pkg.kernels import total; assert 'numba' not in sys.modules; print(total(4), jit.cache_dir())"
    )
    env = {**os.environ, "SOFTIB_CACHE_DIR": str(root / "cache"), "PYTHONPATH": f"{root}:{os.pathsep.join(sys.path)}"}
    out = subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True, check=True)
    return out.stdout.split()


def test_edited_callee_in_another_file_is_seen_and_an_unchanged_one_is_cached(tmp_path):
    write_package(tmp_path, 1)
    first, directory = run(tmp_path)
    assert first == "6"
    compiled = sorted(p.name for p in (tmp_path / "cache").rglob("*.nbc"))
    assert compiled, "nothing was cached"
    assert run(tmp_path) == ["6", directory]
    assert sorted(p.name for p in (tmp_path / "cache").rglob("*.nbc")) == compiled, "compiled again"
    write_package(tmp_path, 10)
    second, other = run(tmp_path)
    assert second == "60" and other != directory


def test_processes_that_begin_at_once_compile_it_once(tmp_path):
    """Four with an empty cache: one compiles, three load what it kept."""
    write_package(tmp_path, 3)
    code = (
        "from pkg.kernels import total; input(); print(total(4), sum(total.dispatcher().stats.cache_misses.values()))"
    )
    env = {
        **os.environ,
        "SOFTIB_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": f"{tmp_path}:{os.pathsep.join(sys.path)}",
    }
    programs = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for _ in range(4)]  # fmt: skip
    for one in programs:
        one.stdin.write("now\n")
        one.stdin.flush()
    said = [one.communicate()[0].split() for one in programs]
    assert [sum_ for sum_, _ in said] == ["18"] * 4
    assert sum(int(misses) for _, misses in said) == 1


def cached_files(root, suffix):
    return list((root / "cache").rglob(suffix))


@pytest.mark.parametrize("suffix", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", [b"", b"junk", bytes(range(256)) * 40])
def test_a_damaged_cache_costs_compile_time_only(tmp_path, suffix, damage):
    write_package(tmp_path, 1)
    run(tmp_path)
    for path in cached_files(tmp_path, suffix):
        path.write_bytes(damage)
    assert run(tmp_path)[0] == "6"
    assert all(p.read_bytes() != damage for p in cached_files(tmp_path, suffix))


def test_a_cache_that_cannot_be_is_one_line_and_no_other_place_is_taken(tmp_path):
    write_package(tmp_path, 1)
    (tmp_path / "cache").write_text("a file")
    code = "from pkg.kernels import total; print(total(4))"
    env = {**os.environ, "SOFTIB_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": f"{tmp_path}:{os.pathsep.join(sys.path)}",
           "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "6\n" and len(done.stderr.splitlines()) == 1 and "compiles anew" in done.stderr, done.stderr
    assert not list(tmp_path.rglob("*.nbi")), "Numba's own next choice would not notice an edited callee"
