"""What people type wrong, as they type it: one line that names what, where and what would be right, and exit code 2."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess

import pytest

from softib.preload.build import compiler
from tests.live.lab import Softib
from tests.live.lab import stock_preload as needs_stock_preload
from tests.live.serving import Raw, wait_for

ON_A_FABRIC = [("run", "--", "true"), ("shell",), ("down",), ("fault", "list"), ("sm", "sweep")]


@pytest.mark.parametrize("words", ON_A_FABRIC, ids=" ".join)
def test_no_running_fabric(softib, words):
    assert "start one with 'softib up" in softib(*words, code=2)


def test_two_with_no_name_given(softib):
    for name in ("one", "two"):
        softib("up", f"{name}.yaml", "--detach", "--sm", "none")
    for words in ON_A_FABRIC:
        said = softib(*words, code=2)
        assert "one, two" in said, said
    assert "did you mean one" in softib("run", "--fabric", "onee", "--", "true", code=2)
    # Of a shell variable that is not set: no choice of the first, or of all.
    for words in (
        ("run", "--fabric", "", "--", "true"),
        ("status", ""),
        ("down", ""),
        ("fault", "--fabric", "", "list"),
    ):
        assert "no running fabric named ''" in softib(*words, code=2)
    assert "cannot be the name" in softib("up", "one.yaml", "--name", "", code=2)
    assert "--node is empty" in softib("run", "--fabric", "one", "--node", "", "--", "true", code=2)
    assert "--node is empty" in softib("shell", "--fabric", "one", "--node", " ", code=2)


class Sitting:
    """A program of ``softib run`` on a node, until the block is over."""

    def __init__(self, command: Softib, *options: str):
        self.command, self.options = command, options

    def __enter__(self) -> subprocess.Popen:
        mark = self.command.folder / f"sits-{len(list(self.command.folder.iterdir()))}"
        script = f"touch {mark}; exec sleep 60"
        self.program = subprocess.Popen(
            self.command.words("run", *self.options, "--", "sh", "-c", script),
            env=self.command.env,
            cwd=self.command.folder,
        )
        assert wait_for(lambda: mark.exists() or self.program.poll() is not None) and self.program.poll() is None
        return self.program

    def __exit__(self, *_) -> None:
        self.program.terminate()
        self.program.wait()


def test_a_node_that_is_taken(softib):
    softib("up", "one.yaml", "--detach")
    free = lambda *words: softib("run", *words, "--", "true")
    taken = lambda *words: softib("run", *words, "--", "true", code=2)
    assert "host-0001[1] is in use by the subnet manager of 'softib up'" in taken("--exclusive")
    with Sitting(softib, "--node", "host-0002", "--exclusive") as alone:
        for words in (
            ("--node", "host-0002"),
            ("--node", "host-0002", "--exclusive"),
            ("--node", "host-0002", "--port", "1"),
        ):
            said = taken(*words)
            assert (
                f"host-0002[1] is in use: pid {alone.pid} (sh) uses it exclusively" in said and "another --node" in said
            )
        free("--node", "host-0003", "--exclusive")
        softib("run", "--node", "host-0002", "--sysfs")  # a look is nobody's business
    free("--node", "host-0002", "--exclusive")
    with Sitting(softib, "--node", "host-0002"):
        free("--node", "host-0002")  # as on a host: they share it
        assert "host-0002[1] is in use: another program of softib run uses it" in taken(
            "--node", "host-0002", "--exclusive"
        )
    with Sitting(softib, "--node", "host-0002", "--exclusive") as alone:
        alone.send_signal(signal.SIGKILL)
        alone.wait()
        free("--node", "host-0002", "--exclusive")  # a lock dies with its holder


@pytest.mark.slow
def test_who_has_devices_open_is_named(softib, stock):
    softib("up", "one.yaml", "--detach", "--sm", "none")
    server = subprocess.Popen(
        softib.words("run", "--node", "host-0002", "--", stock("ibping"), "-S"),
        env=softib.env,
        cwd=softib.folder,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_for(lambda: bool(softib.status()[0]["clients"]))
        pid = softib.status()[0]["clients"][0]["pid"]
        said = softib("run", "--node", "host-0002", "--exclusive", "--", "true", code=2)
        assert f"host-0002[1] is in use: pid {pid} uses it" in said
    finally:
        server.terminate()
        server.wait()


def test_a_second_manager_on_a_node_is_refused_as_ibsim_does(softib):
    """A client of the stock library with SIM_SET_ISSM says so when it connects; ibsim answers ERROR where one sits."""
    softib("up", "one.yaml", "--detach")
    base = softib.status()[0]["sockname"]
    with pytest.raises(ConnectionError):
        Raw(base, "host-0001", issm=1)  # our own manager sits there
    first = Raw(base, "host-0002", issm=1)
    with pytest.raises(ConnectionError):
        Raw(base, "host-0002", issm=1)
    Raw(base, "host-0002").close()  # any other program may
    first.close()
    Raw(base, "host-0002", issm=1).close()  # it is free again


@pytest.mark.slow
@needs_stock_preload
def test_a_second_manager_under_the_stock_library_ends(softib, stock):
    softib("up", "one.yaml", "--detach")
    env = {**softib.env, "SIM_SET_ISSM": "1"}
    done = subprocess.run(
        softib.words("run", "--stock-preload", "--", stock("smpquery"), "-D", "nodeinfo", "0"),
        env=env,
        cwd=softib.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode != 0 and "Node type" not in done.stdout and "Traceback" not in done.stderr


def test_a_preload_on_a_foreign_architecture(softib, tmp_path):
    """A 32-bit ARM program of nothing but its head; and, where the compiler can, a real one of 32 bits."""
    softib("up", "one.yaml", "--detach", "--sm", "none")
    head = (
        b"\x7fELF\x01\x01\x01"
        + bytes(9)
        + struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0x10000, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    )
    (tmp_path / "arm").write_bytes(head.ljust(200, b"\0"))
    os.chmod(tmp_path / "arm", 0o755)
    for options in ([], ["--stock-preload"]) if shutil.which("ibsim") else ([],):
        said = softib("run", *options, "--", str(tmp_path / "arm"), code=2)
        assert "is built for 32-bit ARM" in said and "the library cannot be preloaded" in said, said
    assert compiler() is None or "no such program" in softib("run", "--", "./absent", code=2)
