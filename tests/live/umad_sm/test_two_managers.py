"""Two managers as processes on two nodes of one fabric, ours and stock OpenSM or two of ours; either is killed with SIGKILL at random
moments of its sweeps. The fabric always converges, one of them is master in the end, every port keeps its LID, paths are lost
for no longer than a take-over lasts, and two masters do not stay.

``SOFTIB_KILLS`` says how many kills (20), ``SOFTIB_KILLS_LOG`` where a campaign that is cut off goes on (:mod:`.campaign`).
"""

from __future__ import annotations

import os
import random
import sys
import time

import numpy as np
import pytest

from tests.iba.dissected import columns
from tests.live.umad_sm.campaign import CampaignLog
from tests.live.umad_sm.lab import fabric_of
from tests.live.umad_sm.managers import FIRST, SECOND, Managers, wait

KILLS = int(os.environ.get("SOFTIB_KILLS", "20"))
CONVERGES_S = 60.0
TAKE_OVER_S = 15.0
"""Polls (2 of 300 ms), a sweep of ours or OpenSM's, on a machine that does other work too. OpenSM's own polling thread, and a manager
that was killed while it set the links up, are in it."""
BOTH_S = 10.0
"""Two that discover at once may both become masters; the next light sweep or trap 144 shows them to each other (``--sweep 2``)."""


def campaign(managers: Managers, kills: int, log: CampaignLog) -> None:
    """Kill until ``log`` has so many kills. Its summary is printed whatever happens."""
    s, rng = managers.s, random.Random(14)
    managers.start(FIRST)
    managers.start(SECOND)
    assert wait(managers.converged, CONVERGES_S), managers.why()
    lids = fabric_of(s).lid.copy()
    managers.watch()
    try:
        for kill in range(kills):
            victim, early, late = rng.choice((0, 1, 2, 2)), rng.random() * 0.5, rng.random()
            if kill >= len(log.kills):
                one_kill(managers, kill, victim, early, late, log)
                assert np.array_equal(fabric_of(s).lid, lids), (kill, victim)
    finally:
        print(log.summary(), flush=True)
    assert max(managers.losses(), default=0) < TAKE_OVER_S
    assert max(managers.both_masters(), default=0) < BOTH_S


def one_kill(managers: Managers, kill: int, which: int, early: float, late: float, log: CampaignLog) -> None:
    """``which``: 0 and 1 are the nodes, 2 is who is master."""
    s, masters = managers.s, managers.masters()
    victim = (FIRST, SECOND, *masters[:1], FIRST)[which]
    s("fault", "link-down" if kill % 2 == 0 else "link-up", "leaf-3[3]")  # a sweep begins
    time.sleep(early)
    managers.kill(victim)
    begin = time.monotonic()
    assert wait(managers.converged, CONVERGES_S), (kill, victim, managers.masters(), managers.why())
    took = time.monotonic() - begin
    managers.start(victim)
    time.sleep(late)
    assert wait(managers.converged, CONVERGES_S), (kill, victim, managers.masters(), managers.why())
    lost, both = max(managers.losses(), default=0.0), max(managers.both_masters(), default=0.0)
    program = managers.programs[victim]
    log.note(kill=kill, victim=program, was_master=victim in masters, converged_s=took, lost_s=lost, both_s=both)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.timeout(60 + 60 * KILLS)
@pytest.mark.parametrize("other", ["opensm", "softib"])
def test_either_is_killed_and_the_fabric_converges(softib, stock, other):
    for program in ("opensm", "sminfo"):
        stock(program)
    softib("up", "net.yaml", "--sm", "external", "--detach")
    campaign(Managers(softib, stock, {FIRST: "softib", SECOND: other}), KILLS, CampaignLog(other))


MGID = "ff12601bffff000000000001ff000001"


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.timeout(300)
def test_hosts_do_not_notice_a_take_over(softib, stock):
    """saquery, of the new master, names the members, services and subscribers of the old one; no table was Set (tshark)."""
    saquery = stock("saquery")
    stock("sminfo")
    softib("up", "net.yaml", "--sm", "external", "--pcap", "all.pcap", "--detach")
    managers = Managers(softib, stock, {FIRST: "softib", SECOND: "softib"})
    managers.start(FIRST)
    assert wait(managers.converged, CONVERGES_S), managers.why()
    assert managers.masters() == [FIRST]
    managers.start(SECOND)
    assert wait(lambda: managers.said(SECOND, "STANDBY"), CONVERGES_S)
    script = os.path.join(os.path.dirname(__file__), "join.py")
    for node in ("host-0003", "host-0004", "host-0012"):
        softib("run", "--node", node, "--", sys.executable, script, MGID)
    asks = lambda what: softib("run", "--node", "host-0006", "--", saquery, "--smkey", "1", what)
    seen = {what: asks(what) for what in ("MCMR", "SR", "IIR")}
    assert seen["MCMR"].count("ff12:601b:ffff::1:ff00:1") == 3 and seen["SR"].count("ServiceID") == 3, seen
    assert seen["IIR"].count("InformInfoRecord dump") == 3, seen
    f = fabric_of(softib)
    time.sleep(2)
    before = len(rows(softib))
    managers.kill(FIRST)
    assert wait(managers.converged, CONVERGES_S), managers.why()
    assert managers.masters() == [SECOND]
    assert {what: asks(what) for what in seen} == seen
    after = fabric_of(softib)
    assert np.array_equal(after.lid, f.lid) and np.array_equal(after.lft, f.lft) and np.array_equal(after.mft, f.mft)
    sets = [int(attr, 0) for method, attr in rows(softib)[before:] if method and int(method, 0) == 2]
    assert 0x15 in sets, "ports learn their master"
    assert 0x19 not in sets and 0x1B not in sets, "no forwarding or multicast table is Set"


def rows(softib) -> list[list[str]]:
    return [
        r[1:]
        for r in columns(
            softib.folder / "all.pcap",
            "infiniband.mad.mgmtclass",
            "infiniband.mad.method",
            "infiniband.mad.attributeid",
        )
        if r[0] and int(r[0], 0) in (0x01, 0x81)
    ]
