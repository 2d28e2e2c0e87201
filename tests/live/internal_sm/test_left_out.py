"""Parts that the internal manager cannot bring up: what ``softib up`` reports. Oracle: the cables that were deleted, and where."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from softib.fabric.node_finder import default_port, find_node
from softib.fabric.plugging import delete_cables
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.live.left_out import left_out
from softib.scenario.bring_up import bring_up


def _tree_without_uplinks_of(leaf: str):
    """Two levels of 8-port switches; none of the leaf's uplinks is left."""
    f = generate("fat-tree", radix=8, levels=2)
    mine = f.port_node == find_node(f, leaf)
    delete_cables(f, f.port_cable[mine & f.linked & f.is_switch[f.port_node[f.port_peer]]])
    return f


@pytest.mark.parametrize("leaf", ("leaf-1", "leaf-8"))
def test_the_manager_is_in_the_largest_part_and_names_the_other(leaf):
    f = _tree_without_uplinks_of(leaf)
    up = bring_up(f)
    assert up.port == default_port(f)
    faults, notes = left_out(f, up.port, [])
    assert len(faults) == 1 and not notes
    assert f"5 nodes ({leaf}, " in faults[0] and f.port_name(up.port) in faults[0]
    silent = f.linked & (f.port_state == PortState.INIT)
    assert silent.sum() == 8, "four cables of the leaf to its hosts, two ports each"


def test_a_subnet_of_its_own_is_a_note():
    f = generate("rail-optimized", nodes=8, rails=2, radix=8)
    core = np.char.find(np.array(f.node_names()), "spine") >= 0
    between = core[f.port_node] & f.linked
    delete_cables(f, f.port_cable[between])
    bring_up(f)
    faults, notes = left_out(f, default_port(f), [])
    assert not faults and notes and all("another manager" in note for note in notes)
    assert left_out(*_whole(), []) == ([], [])


def _whole():
    f = generate("fat-tree", radix=4, levels=2)
    return f, bring_up(f).port


def test_up_strict_is_down_with_the_names(softib):
    """Two adapters with one NodeGUID: the manager leaves the second out (IBA 14.2.5.3: GUIDs are unique)."""
    _duplicate(softib)
    done = subprocess.run(
        softib.words("up", "dup.net", "--strict", "--detach"),
        env=softib.env,
        cwd=softib.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "did not become ACTIVE" in done.stderr and "is on two devices" in done.stderr.splitlines()[-1]
    assert not softib.status()


def test_sm_run_strict_fails_with_the_names(softib):
    """The same fabric, with softib's manager on a umad device."""
    _duplicate(softib)
    softib("up", "dup.net", "--name", "dup", "--sm", "external", "--detach")
    # not on the two adapters with one GUID, which are the first hosts
    for words in (("--once",), ()):
        done = subprocess.run(
            softib.words(
                "run",
                "--fabric",
                "dup",
                "--node",
                "host-0004",
                "--",
                sys.executable,
                "-m",
                "softib",
                "sm",
                "run",
                "--strict",
                *words,
            ),
            env=softib.env,
            cwd=softib.folder,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert done.stderr.count("is on two devices") == 1, done.stderr
    done = softib(
        "run", "--fabric", "dup", "--node", "host-0004", "--", sys.executable, "-m", "softib", "sm", "run", "--once"
    )
    assert "is on two devices" in done


def _duplicate(softib) -> None:
    softib("convert", "one.yaml", "one.net")
    text = (softib.folder / "one.net").read_text()
    first, second = (n for n in _adapters(text)[:2])
    (softib.folder / "dup.net").write_text(text.replace(second, first))


def _adapters(text: str) -> list[str]:
    return [line.split('"H-')[1].split('"')[0][:-2] for line in text.splitlines() if line.startswith("Ca")]
