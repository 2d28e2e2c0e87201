"""A switch whose uplink dies sends packets of programs over its alternatives, before any manager hears of it.

Oracles: a walk in plain Python over the columns by the rule of ARInfo.fr_enabled; stock ``ib_write_bw`` while the manager is stopped.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from softib.iba.constants import PhysState, PortState
from softib.iba.smp import PortInfo
from tests.live.serving import wait_for
from tests.preload.verbs.applications import FABRIC, Applications, C, stop, wait_for_listener
from tests.preload.verbs.fabric_library import SharedFabricInC, egress, reason
from tests.sm.local_repair_lab import managed, reaches


def cut(f, port: int, up: bool) -> None:
    for end in (port, int(f.port_peer[port])):
        PortInfo.port_state.set(f.port_info[end], PortState.ACTIVE if up else PortState.DOWN)
        PortInfo.port_phys_state.set(f.port_info[end], PhysState.LINK_UP if up else PhysState.POLLING)


@pytest.mark.parametrize("text", ["", "local_repair TRUE", "adaptive_routing free"])
def test_packets_arrive_where_the_rule_of_local_repair_brings_them(tmp_path, text):
    """Every pair of hosts, for each cable between switches in turn; adaptive routing alone repairs nothing."""
    made, _, _, _ = managed(text)
    shared = SharedFabricInC(tmp_path, made)
    f = shared.fabric
    hosts = [int(f.port(int(n), 1)) for n in f.cas]
    switch = f.is_switch[f.port_node]
    cables = [int(p) for p in np.flatnonzero(f.linked & switch & switch[f.port_peer]) if p < f.port_peer[p]]
    saved = 0
    for cable in cables[::3]:
        cut(f, cable, False)
        for a in hosts[::3]:
            for b in hosts:
                if a == b:
                    continue
                got, lid = shared.walk(a, int(f.lid[b])), int(f.lid[b])
                want = reaches(f, a, lid, b, text == "local_repair TRUE")
                assert (reason(got) == "ok") == want, (cable, a, b)
                assert cable not in egress(got) and f.port_peer[cable] not in egress(got)
                saved += want and not reaches(f, a, lid, b, False)
        cut(f, cable, True)
    assert (saved > 0) == (text == "local_repair TRUE")


def spine(fabric: Applications, a: str, b: str) -> str:
    """The spine on the way; empty where no path leads there yet."""
    done = subprocess.run(fabric.arguments("sm", "explain", a, b), env=fabric.env, capture_output=True, text=True)
    found = re.search(r"spine-\d+", done.stdout)
    return found[0] if done.returncode == 0 and found else ""


def crossing(fabric: Applications) -> tuple[str, str, str]:
    """A sender on leaf-4, a receiver on leaf-1, and the spine that the sender's packets take and those that answer do not."""
    for to in ("host-0001", "host-0002"):
        for sender in ("host-0007", "host-0008"):
            there, back = spine(fabric, sender, to), spine(fabric, to, sender)
            if there != back:
                return sender, to, there
    raise AssertionError("all pairs come back over the spine by which they went")


@pytest.mark.stock
@pytest.mark.slow
@pytest.mark.parametrize("repair", [True, False])
def test_ib_write_bw_goes_on_while_the_manager_is_stopped(stock, repair):
    """The sender's leaf loses the uplink that its packets take; the manager, a process of its own, gets SIGSTOP before. Without local repair nothing moves."""
    fabric, programs = Applications(FABRIC, "--sm", "external"), []
    try:
        (fabric.folder / "opts").write_text(f"local_repair {str(repair).upper()}\n")
        manager = fabric.begin(
            C, sys.executable, "-m", "softib.cli.main", "sm", "run", "--sm-config", str(fabric.folder / "opts")
        )
        programs.append(manager)
        assert wait_for(lambda: spine(fabric, "host-0008", "host-0001") != "", 60)
        sender, to, used = crossing(fabric)
        port = next(fabric.ports)
        command = (stock("ib_write_bw"), "-D", "25", "-F", "-s", "65536", "-p", str(port))
        programs.append(fabric.begin(to, *command))
        wait_for_listener(port, programs[-1])
        programs.append(fabric.begin(sender, *command, "127.0.0.1"))
        fabric.until_busy(sender)
        os.killpg(manager.pid, signal.SIGSTOP)
        fabric("fault", "link-down", f"{used}[4]")
        time.sleep(0.5)
        before, wide = fabric.counters(sender)["PortXmitPkts"], time.monotonic()
        time.sleep(1.5)
        moved = fabric.counters(sender)["PortXmitPkts"] - before
        print(
            f"{moved / (time.monotonic() - wide):,.0f} packets a second over {sender}'s port while {used}[4] is down and the manager stopped"
        )
        assert moved > 2000 if repair else moved < 2000
        os.killpg(manager.pid, signal.SIGCONT)
        if repair:
            output = programs[-1].communicate(timeout=120)[0]
            assert programs[-1].returncode == 0, output
    finally:
        for program in programs:
            stop(program)
        fabric.close()
