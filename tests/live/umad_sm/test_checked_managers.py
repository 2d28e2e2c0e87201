"""What ``softib check`` says of managers that run as processes is the same for the name of the running fabric and for a port on it, where
they are read with MADs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.live.lab import said
from tests.live.serving import wait_for
from tests.live.umad_sm.managers import FIRST, SECOND, WATCHER, Managers

Rows = list[tuple[str, str]]


def _of_managers(softib, *words: str) -> Rows:
    findings = said(softib, *words, code=None)["findings"]
    return sorted((one["code"], one["message"]) for one in findings if one["code"].startswith("sm-"))


def _by_name(softib) -> Rows:
    return _of_managers(softib, "check", "net")


def _by_port(softib) -> Rows:
    check = (sys.executable, "-m", "softib.cli.main", "check", "umad:")
    return _of_managers(softib, "run", "--node", WATCHER, "--", *check)


@pytest.mark.slow
@pytest.mark.stock
def test_both_ways_to_name_a_running_fabric_report_the_same_of_its_managers(softib, stock):
    for program in ("opensm", "sminfo"):
        stock(program)
    softib("up", "net.yaml", "--sm", "external", "--detach")
    managers = Managers(softib, stock, {FIRST: "softib", SECOND: "opensm"}, {FIRST: 5, SECOND: 5})
    managers.start(FIRST)
    assert wait_for(lambda: managers.states()[FIRST] == "MASTER")
    rows = _by_name(softib)
    assert rows == _by_port(softib) and [code for code, _ in rows] == ["sm-no-standby", "sm-on-compute-node"]
    managers.start(SECOND)
    assert wait_for(lambda: sorted(managers.states().values()) == ["MASTER", "STANDBY"])
    rows = _by_name(softib)
    assert rows == _by_port(softib)
    assert [code for code, _ in rows] == ["sm-equal-priorities", "sm-on-compute-node", "sm-on-compute-node"]


@pytest.mark.slow
def test_the_manager_of_softib_up_is_no_finding_and_a_second_one_is(softib):
    softib("up", "net.yaml", "--detach")
    assert _by_name(softib) == []
    assert [code for code, _ in _by_port(softib)] == ["sm-no-standby", "sm-on-compute-node"]
    words = softib.words("run", "--node", SECOND, "--", sys.executable, "-m", "softib.cli.main", "sm", "run")
    second = subprocess.Popen([*words, "--priority", "0"], env=softib.env, cwd=softib.folder, stderr=subprocess.DEVNULL)
    softib.started.append(second)
    assert wait_for(
        lambda: [m for _, m in _by_name(softib) if m.startswith(f"the standby subnet manager runs on {SECOND}")]
    )
    assert not [m for _, m in _by_name(softib) if "the master" in m]
