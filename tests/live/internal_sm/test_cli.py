"""Stock OpenSM started as users start it, ``softib run -- opensm``, and cables that ``softib fault`` pulls: the traps
arrive, the routes leave the dead cable, and everything is as it was when it is back. Managers that are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from softib.fabric.faults.targets import port_at
from softib.fabric.model import Fabric
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo, SwitchInfo
from softib.live.shared_fabric import SharedFabric
from tests.live.internal_sm.lab import CONFIG, proves, says
from tests.live.lab import Softib
from tests.live.serving import PRELOAD, wait_for

pytestmark = pytest.mark.stock
TREE = "name: one\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 4, levels: 3}\n"
LONG = 60
BY_TIMEOUT = re.compile(r"ERR (?!5411|3113|3120|3020)\w+.*")
"""OpenSM's complaints other than those of requests that were under way when a cable fell."""


@pytest.fixture(params=["own", pytest.param("stock", marks=pytest.mark.slow)])
def options(request) -> list[str]:
    """Of ``softib run``, for each preload library."""
    if request.param == "stock" and not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is absent")
    return ["--stock-preload"] if request.param == "stock" else []


class Manager:
    """One stock OpenSM on ``node``. ``log``: what it logged so far."""

    def __init__(self, s: Softib, opensm: str, node: str, options: list[str], *more: str):
        self.folder = s.folder / f"sm-{node}-{len(s.started)}"
        self.folder.mkdir()
        (self.folder / "conf").write_text(CONFIG)
        env = {**s.env, "OSM_CACHE_DIR": str(self.folder), "OSM_TMP_DIR": str(self.folder)}
        words = [*options, "--node", node, "--", opensm, "-F", "conf", "-f", "log", "-D", "0x3", "-d2", *more]
        self.process = subprocess.Popen(
            s.words("run", *words),
            env=env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        s.started.append(self.process)

    @property
    def path(self) -> Path:
        return self.folder / "log"

    @property
    def log(self) -> str:
        return self.path.read_text(errors="replace") if self.path.is_file() else ""

    def traps(self) -> list[tuple[int, int]]:
        """(number, LID of who raised it) of each that it took, in order."""
        found = re.findall(r"Received Generic Notice type:\d+ num:(\d+) .* from LID:(\d+)", self.log)
        return [(int(number), int(lid)) for number, lid in found]

    def sweeps(self) -> int:
        return self.log.count("SUBNET UP")

    def kill(self) -> None:
        """The process that ``softib run`` became or started, whichever is OpenSM."""
        here = [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/comm") if _text(p) == "opensm\n"]
        mine = [pid for pid in here if _cwd(pid) == str(self.folder)]
        assert len(mine) == 1, mine
        os.kill(mine[0], signal.SIGKILL)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _cwd(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def served(s: Softib, text: str) -> Fabric:
    """The board of a fabric that runs without a manager."""
    (s.folder / "one.yaml").write_text(text)
    s("up", "one.yaml", "--sm", "external", "--detach")
    return SharedFabric.open(Path(s.status()[0]["shared_fabric"])).fabric


def ways_into(f: Fabric, port: int) -> int:
    """LFT entries, of all LIDs that ports have, that send into the cable at ``port``, from either end."""
    lids = f.lid[f.end_ports()]
    ends = [p for p in (port, int(f.port_peer[port])) if f.is_switch[f.port_node[p]]]
    return sum(int((f.lft[f.switch_of_node[f.port_node[p]]][lids] == f.port_num[p]).sum()) for p in ends)


def whole(f: Fabric) -> bool:
    return bool((f.port_state[f.port_peer >= 0] == PortState.ACTIVE).all()) and proves(f)


def trap_of(f: Fabric, port: int, number: int = 128) -> tuple[int, int]:
    """What its switch tells when ``port`` changes: trap 128 with the LID of its port 0."""
    return number, int(f.lid[f.node_base[f.port_node[port]]])


def unchanged(f: Fabric, port: int) -> bool:
    """Whether the manager has cleared PortStateChange of the switch of ``port``. OpenSM clears it at the end of a sweep, after it has read the ports:
    what changes between the two raises no trap, since the bit is 1 already, and is never read."""
    return not SwitchInfo.port_state_change.get(f.switch_info)[f.switch_of_node[f.port_node[port]]]


def test_link_down_and_up(options, stock, softib):
    f = served(softib, TREE)
    sm = Manager(softib, stock("opensm"), "host-0001", options, "-R", "updn")
    assert wait_for(lambda: sm.sweeps() >= 1 and whole(f), LONG), sm.log[-2000:]
    lids, before = f.lid.copy(), f.lft.copy()
    between = port_at(f, "leaf-1[3]")
    assert ways_into(f, between) > 0
    had, swept = sm.traps(), sm.sweeps()
    softib("fault", "link-down", "leaf-1[3]")
    assert wait_for(lambda: sm.sweeps() > swept and ways_into(f, between) == 0 and proves(f), LONG), sm.log[-2000:]
    assert wait_for(lambda: trap_of(f, between) in sm.traps()[len(had) :], LONG)
    assert (f.lft != before).any() and f.port_state[between] == PortState.DOWN
    assert wait_for(lambda: all(unchanged(f, p) for p in (between, int(f.port_peer[between]))), LONG)
    had, swept = sm.traps(), sm.sweeps()
    softib("fault", "link-up", "leaf-1[3]")
    both = {trap_of(f, between), trap_of(f, int(f.port_peer[between]))}
    assert wait_for(lambda: both <= set(sm.traps()[len(had) :]), LONG), "both ends tell of a cable that is back"
    assert wait_for(lambda: sm.sweeps() > swept and whole(f) and ways_into(f, between) > 0, LONG), sm.log[-2000:]
    assert (f.lid == lids).all()
    # A host's cable: its leaf tells; the manager knows that the host is gone, and gives it its LID again.
    host = port_at(f, "host-0003[1]")
    leaf, gid = int(f.port_peer[host]), rf"GID:fe80::{int(f.port_guid[host]) >> 48 & 0xFFFF:x}:"
    for word, state in (("down", PortState.DOWN), ("up", PortState.ACTIVE)):
        assert wait_for(lambda: unchanged(f, leaf), LONG), word
        had, swept = len(sm.traps()), sm.sweeps()
        softib("fault", f"link-{word}", "host-0003[1]")
        assert wait_for(lambda s=state, n=swept: sm.sweeps() > n and f.port_state[host] == s, LONG), sm.log[-2000:]
        # A port tells one thing in a SubnetTimeOut: the sweep may come by what another switch told.
        assert wait_for(lambda n=had: trap_of(f, leaf) in sm.traps()[n:], LONG), word
    assert re.search(r'"GID out of service", ' + gid, sm.log) and wait_for(lambda: whole(f), LONG)
    assert (f.lid == lids).all() and (f.lft[:, lids[f.end_ports()]] == before[:, lids[f.end_ports()]]).all()
    complaints = BY_TIMEOUT.findall(sm.log)
    assert not complaints, complaints
    assert softib.status()[0]["bugs"] == 0


@pytest.mark.slow
def test_the_standby_takes_over_a_killed_master(options, stock, softib):
    """A cable falls while nobody is master: who takes over routes around it. (``test_opensm_daemon`` hands over and back.)"""
    f = served(softib, TREE)
    opensm = stock("opensm")
    master = Manager(softib, opensm, "host-0001", options, "-p", "9", "-R", "updn")
    assert wait_for(lambda: master.sweeps() >= 1 and whole(f), LONG), master.log[-2000:]
    standby = Manager(softib, opensm, "host-0016", options, "-p", "1", "-R", "updn")
    assert wait_for(lambda: says(standby.path, "Entering STANDBY"), LONG), standby.log[-2000:]
    other = port_at(f, "host-0016[1]")
    assert wait_for(lambda: (144, int(f.lid[other])) in master.traps(), LONG), "its port says IsSM from now on"
    lids, between = f.lid.copy(), port_at(f, "leaf-1[3]")
    master.kill()
    softib("fault", "link-down", "leaf-1[3]")
    assert wait_for(lambda: "Entering MASTER" in standby.log, LONG), standby.log[-2000:]
    assert wait_for(lambda: standby.sweeps() >= 1 and ways_into(f, between) == 0 and proves(f), LONG)
    told = PortInfo.master_sm_lid.get(f.port_info[f.node_base[f.cas] + 1])
    assert (f.lid == lids).all() and (told == f.lid[other]).all(), "every host knows the new master"
    swept = standby.sweeps()
    softib("fault", "link-up", "leaf-1[3]")
    assert wait_for(lambda: standby.sweeps() > swept and whole(f), LONG), standby.log[-2000:]
    clients = softib.status()[0]["clients"]
    assert {c["node"] for c in clients if c["sm"]} == {"host-0016"}, "nothing of the dead one is left"
    assert softib.status()[0]["bugs"] == 0
