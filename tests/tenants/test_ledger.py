"""Findings outlive the service: their begin and end are the same after a restart."""

from __future__ import annotations

import pytest

from softib.tenants import changes
from tests.tenants.subnet_lab import SubnetLab, add, delete, members, search_now, until


@pytest.fixture
def lab(tmp_path):
    made = SubnetLab(tmp_path / "tenants")
    yield made
    made.close()


def test_a_restart_keeps_present_and_ended_findings(lab):
    of = lambda kind, resolved=True: [x for x in lab.service.findings(resolved) if x.kind == kind]
    victim, *others = lab.hosts[1:4]
    f, row = lab.fabric, lab.rows[victim]
    lab.do(lambda: f.pkeys.__setitem__(int(f.pkey_base[row] + f.pkey_cap[row] - 1), 0x8123))
    search_now(lab)
    until(lambda: of("drift") and not of("drift", False))
    for pkey in (5, 6):
        assert lab.settled(add(lab, pkey, members(*others), index0=True)).state == "programmed"
    assert len(of("isolation", False)) == 1 and len(of("index0", False)) == 2
    delete(lab, 6)
    assert not of("index0", False)
    before = {kind: of(kind) for kind in ("drift", "isolation", "index0")}
    lab.restart()
    assert {kind: of(kind) for kind in before} == before
    limited = lab.change(lambda d: changes.set_everyone(d, "limited"))
    assert lab.settled(limited).state == "programmed"
    (ended,) = of("isolation")
    assert ended.begun_s == before["isolation"][0].begun_s < ended.ended_s
    lab.restart()
    assert of("isolation") == [ended] and of("drift") == before["drift"]


def test_a_drift_at_the_end_of_the_service_ends_after_its_restart(lab):
    of = lambda resolved: [x for x in lab.service.findings(resolved) if x.kind == "drift"]
    victim = lab.hosts[1]
    lab.lock(victim)  # the manager cannot correct the table
    f, row = lab.fabric, lab.rows[victim]
    stray = int(f.pkey_base[row] + f.pkey_cap[row] - 1)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0x8123))
    search_now(lab)
    until(lambda: of(False))
    (before,) = of(False)
    lab.restart()
    assert of(True) == [before], "one finding, not one of each process"
    lab.lock(victim, 0)
    lab.do(lambda: f.pkeys.__setitem__(stray, 0))
    search_now(lab)
    until(lambda: not of(False))
    (after,) = of(True)
    assert (after.begun_s, after.text) == (before.begun_s, before.text) and after.ended_s > after.begun_s
