"""Several managers on one fabric (IBA 14.4.1): one master, the one of highest rank, whatever happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, MgmtClass, PortState, SmpAttr
from softib.iba.smp import DATA_AT, PortInfo, SMInfo
from softib.live.umad_client.wire import smp_get
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.ha.election import TRANSITIONS, SmControl, SmEvent, SmState
from tests.sm.sa.asking import Several


def several(**priorities: int) -> Several:
    fabric = generate("fat-tree", radix=4, levels=2)
    hosts = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
    config = lambda p: SmConfig(priority=p, window=64, sweep_interval_ps=10**13)
    return Several(fabric, **{n: (int(hosts[i]), config(p)) for i, (n, p) in enumerate(priorities.items())})


def masters(s: Several) -> list[str]:
    return [n for n in sorted(s.alive) if s.state(n) == "MASTER"]


def led_by(s: Several, name: str) -> bool:
    """Every end port knows this manager as its master, and every link is up."""
    f, lid = s.fabric, int(PortInfo.lid.get(s.fabric.port_info[s.at[name]]))
    hosts = f.linked & ~f.is_switch[f.port_node]
    return bool((PortInfo.master_sm_lid.get(f.port_info[hosts]) == lid).all()) and bool(
        (f.port_state[f.linked] == PortState.ACTIVE).all()
    )


@pytest.mark.parametrize(("a", "b", "wins"), [(3, 5, "b"), (5, 3, "a"), (4, 4, "a")])
def test_two_that_start_together(a, b, wins):
    """Priority decides; of equals the lower GUID, which is the first host's."""
    s = several(a=a, b=b)
    s.start("a")
    s.start("b")
    s.run(5)
    assert masters(s) == [wins] and led_by(s, wins)
    assert s.state("ab".replace(wins, "")) == "STANDBY"


def test_a_higher_one_comes_and_goes():
    """It stands by, the master hands over when it sees it; it dies, and the standby takes over after its polls."""
    s = several(low=1, high=9)
    s.start("low")
    s.run(1)
    assert masters(s) == ["low"]
    s.start("high")
    s.run(1)
    assert s.state("high") == "STANDBY"
    s.sm["low"].request_sweep()
    s.run(3)
    assert masters(s) == ["high"] and s.state("low") == "STANDBY" and led_by(s, "high")
    s.kill("high")
    polls = SmConfig().polling_timeout_ps * SmConfig().polling_retries / 1e12
    s.run(polls / 2)
    assert s.state("low") == "STANDBY"
    s.run(polls)
    assert masters(s) == ["low"] and led_by(s, "low")


def test_a_lower_one_stays_standby_and_is_told_no_more_than_that():
    s = several(high=9, low=1)
    s.start("high")
    s.run(1)
    s.start("low")
    s.run(60)
    assert masters(s) == ["high"] and s.state("low") == "STANDBY" and led_by(s, "high")


@pytest.mark.parametrize("own", [0, 9], ids=["lower-priority", "same-priority-higher-guid"])
def test_one_that_ranks_below_the_master_sets_nothing(own):
    """From its start to its rest, through traps and light sweeps: it asks, and sends SMInfo; its outbox has no other Set."""
    s = several(high=9, low=own)
    s.start("high")
    s.run(1)
    step, sent = s.sm["low"].step, []

    def watched(now_ps, inbox):
        outbox, due = step(now_ps, inbox)
        sent.extend((int(m[3]), int.from_bytes(bytes(m[16:18]), "big")) for m in outbox.mad if m[1] in (0x01, 0x81))
        return outbox, due

    s.sm["low"].step = watched
    s.start("low")
    s.run(30)
    s.sm["high"].request_sweep()
    s.run(30)
    s.sm["low"].request_sweep()
    s.run(30)
    assert masters(s) == ["high"] and led_by(s, "high")
    assert len(sent) > 50, "it did look"
    assert not [attr for method, attr in sent if method == Method.SET and attr != SmpAttr.SM_INFO]


def test_two_masters_that_meet_become_one():
    """Each was alone, then a cable joined them: the higher one stays."""
    s = several(a=2, b=7)
    s.start("a")
    s.run(1)
    s.start("b")
    s.sm["b"]._mastership.state = SmState.MASTER
    s.run(1)
    assert masters(s) == ["a", "b"]
    for sm in s.sm.values():
        sm.request_sweep()
    s.run(5)
    assert masters(s) == ["b"] and led_by(s, "b")


@pytest.mark.parametrize("low", ["a", "b"])
def test_a_priority_that_is_read_anew_counts(low):
    """Of two that were equal the lower GUID is master; it is given less by a reload, and hands over, whatever it was called before (IBA 14.4.1)."""
    s = several(a=4, b=4)
    s.start("a")
    s.start("b")
    s.run(3)
    for name in "ab":
        s.sm[name].reconfigure(replace(s.sm[name].config, priority=1 if name == low else 4))
    for sm in s.sm.values():
        sm.request_sweep()
    s.run(6)
    assert masters(s) == ["b" if low == "a" else "a"]
    s.sm[low]._mastership.state = SmState.MASTER  # as after a split: each judges by what both say
    for sm in s.sm.values():
        sm.request_sweep()
    s.run(6)
    assert masters(s) == ["b" if low == "a" else "a"]


def test_a_standby_that_is_given_a_higher_priority_takes_over_at_once():
    """Nobody sweeps a quiet subnet: trap 144 with ChangeFlags bit 3 tells the master (IBA 14.2.5.1), which asks for SMInfo and hands over."""
    s = several(a=4, b=2)
    s.start("a")
    s.run(1)
    s.start("b")
    s.sm["a"].request_sweep()
    s.run(3)
    assert masters(s) == ["a"] and s.state("b") == "STANDBY"
    s.sm["b"].reconfigure(replace(s.sm["b"].config, priority=9))
    s.run(3)
    assert masters(s) == ["b"] and led_by(s, "b")


def test_another_key_takes_no_part():
    s = several(a=1, b=9)
    s.sm["b"].config = SmConfig(priority=9, sm_key=77)
    s.sm["b"].election.sm_key = 77
    s.start("a")
    s.run(1)
    s.start("b")
    s.sm["a"].request_sweep()
    s.run(2)
    assert "a" in masters(s), "a manager with another SM_Key is nobody to hand over to"


def test_every_state_has_the_transitions_of_the_specification():
    """Each control of Set(SMInfo) is obeyed in exactly the states in which IBA 14.4.1 lets it mean something."""
    obeyed = {
        SmEvent.HANDOVER: {SmState.STANDBY},
        SmEvent.ACKNOWLEDGED: {SmState.MASTER},
        SmEvent.DISABLE: {SmState.STANDBY},
        SmEvent.STANDBY_SIGNAL: {SmState.NOT_ACTIVE},
        SmEvent.DISCOVER: {SmState.STANDBY},
    }
    for event, states in obeyed.items():
        assert {s for s in SmState if TRANSITIONS.get((s, event), s) != s} == states
    assert len(SmControl) == len(obeyed)


def test_sminfo_shows_the_guid_at_every_moment_of_a_sweep():
    """OpenSM takes an answer with GUID 0 for no manager (ERR 2F19), and becomes master beside it: seen in a campaign of kills."""
    s = several(a=1)
    sm, port = s.sm["a"], s.at["a"]
    ask = smp_get(SmpAttr.SM_INFO, dlid=1)
    ask.slid[:] = 9
    shown: list[int] = []
    for _ in range(2):
        sm.request_sweep()
        inbox, asked = None, True
        while asked or not sm.settled:
            outbox, due = sm.step(s.now_ps, ask.copy() if inbox is None else MadBatch.concat([inbox, ask.copy()]))
            told = (outbox.mad[:, 1] == MgmtClass.SUBN_LID) & (outbox.mad[:, 3] == 0x81)
            shown += SMInfo.guid.get(outbox.mad[told][:, DATA_AT : DATA_AT + 64]).tolist()
            rest = outbox[~told]
            inbox, asked = (s.plane.send(rest, port, s.now_ps) if len(rest) else None), bool(len(rest))
            s.now_ps = s.now_ps + 1 if len(rest) else max(s.now_ps + 1, min(due, s.now_ps + 10**9))
    assert len(shown) > 30 and set(shown) == {int(s.fabric.port_guid[port])}


def test_a_master_that_its_own_port_does_not_name_looks_for_its_rival():
    """Two masters, and nothing tells the lower one: its light sweep reads its own port, which the other one has Set."""
    s = several(low=1, high=9)
    s.start("low")
    s.run(1)
    s.start("high")
    s.sm["high"]._mastership.state = SmState.MASTER
    s.sm["high"].request_sweep()
    s.run(0.5)
    assert masters(s) == ["high", "low"]
    s.run(15)
    assert masters(s) == ["high"] and led_by(s, "high")
