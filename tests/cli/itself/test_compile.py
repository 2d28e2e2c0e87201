"""``softib compile``: what commands would compile at their first use is there afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from softib.api import machine
from softib.cli.itself.installation import compile as compile_verb
from softib.cli.main import VERBS
from softib.errors import PeerError
from softib.live.status import FabricStatus, Mads, ManagerStatus, PortStates, VerbsUsage


def test_it_runs_verbs_that_there_are() -> None:
    assert {command[0] for row in machine.JOBS for command in row} <= set(VERBS)


def test_a_command_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "JOBS", ((("check", "absent.yaml"),), (("route", "tree.yaml", "--engine", "none"),)))
    result = CliRunner().invoke(compile_verb)
    assert isinstance(result.exception, PeerError)
    text = str(result.exception)
    assert "\n" not in text and text.startswith(
        ("softib check absent.yaml: ", "softib route tree.yaml --engine none: ")
    )


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    env = {**os.environ, "SOFTIB_CACHE_DIR": str(tmp_path / "cache"), "XDG_RUNTIME_DIR": str(tmp_path)}
    softib = [sys.executable, "-m", "softib.cli.main"]

    def kept() -> set[str]:
        return {path.name for path in (tmp_path / "cache" / "kernels").glob("*.code")}

    subprocess.run([*softib, "compile"], env=env, check=True, timeout=900)
    before = kept()
    assert len(before) > 30
    fabric = str(Path(__file__).resolve().parents[3] / "examples" / "superpod-127-faults.yaml")
    subprocess.run([*softib, "report", fabric], env=env, check=True, timeout=300, capture_output=True)
    subprocess.run(
        [*softib, "up", fabric, "--detach", "--name", "jit-compile"],
        env=env,
        check=True,
        timeout=300,
        capture_output=True,
    )
    subprocess.run([*softib, "down", "jit-compile"], env=env, check=True, timeout=60)
    assert kept() == before


@pytest.mark.parametrize(("kernels", "shown"), [("both", False), ("", False), ("plain (no name)", True)])
def test_status_says_how_kernels_are_compiled_where_something_is_missing(kernels, shown, capsys) -> None:
    from softib.cli.run.status import _print

    one = FabricStatus(
        name="f",
        pid=1,
        source="s",
        ready=True,
        ready_s=1.0,
        uptime_s=1.0,
        nodes=2,
        switches=1,
        cas=1,
        links=1,
        port_states=PortStates(down=0, init=0, armed=0, active=2),
        sm=ManagerStatus(kind="none"),
        pace=False,
        clients=[],
        verbs=VerbsUsage(programs=0, numbers=0, members=0, keys=0, chunks=0, octets=0),
        mads=Mads(answered=0, forwarded=0, timed_out=0),
        traps={},
        kernels=kernels,
        bugs=0,
        log="",
        epoch=0,
        shared_fabric="",
        sockname="",
        version="",
    )
    _print(one)
    assert ("compiled kernels: plain (no name)" in capsys.readouterr().out) is shown
