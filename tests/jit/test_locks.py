"""A process that holds the lock of a unit and does not finish: others wait for a limited time, report it, and compile."""

import contextlib
import fcntl

import pytest

from .lab import MAIN, cached, run, write

UNITS = ("pkg.kernels.total", "pkg.kernels.alone")
IMPATIENT = """
    from softib.jit import store
    store.PATIENCE_S = 0.5
    """
WAITS = (
    MAIN
    + """
    print("waited", *sorted(set(waited)))
    """
)
NOTED = """
    waited = []
    from softib.jit import on_compiling as listen
    listen(lambda unit, done, of: of >= 0 or waited.append(unit))
    """


@contextlib.contextmanager
def stuck(root, units):
    """Hold the locks of these units, as a stopped process would."""
    folder = root / "cache" / "kernels"
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as held:
        for unit in units:
            file = held.enter_context((folder / f"{unit}.lock").open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("mode", ["both", "plain"])
def test_a_stuck_process_is_waited_for_once_and_named(tmp_path, mode):
    write(tmp_path)
    with stuck(tmp_path, UNITS):
        words = run(
            tmp_path,
            before=IMPATIENT + NOTED,
            main=WAITS.replace('assert "numba" not in sys.modules', ""),
            SOFTIB_JIT=mode,
        )
    assert words[:2] == ["81", "2"]
    assert words[words.index("waited") + 1 :][0] == UNITS[0], "progress while it waits"
    lines = [word for word in words if word.startswith("softib: ")]
    assert len(lines) == 1 and UNITS[0] in lines[0] and "0.5 s" in lines[0], words
    assert words[words.index("waited") + 1 : -1] == [UNITS[0]], "the second lock is not waited for"


def test_units_of_an_impatient_process_are_stored(tmp_path):
    write(tmp_path)
    with stuck(tmp_path, UNITS):
        run(tmp_path, before=IMPATIENT)
    assert len(cached(tmp_path)) == 2
    assert run(tmp_path) == ["81", "2"], "all loaded"
