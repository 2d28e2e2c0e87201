"""GMPs stay within their partition; switch ports that enforce stop them on the way (IBA 10.9, 18.2.4.2)."""

import numpy as np
import pytest

from softib.iba.constants import CapMask
from softib.iba.notice import TrapBadKey, TrapBadSwitchPKey
from softib.iba.smp import PortInfo
from tests.agents.client_plane import ClientPlane
from tests.agents.lab import program

from .smps import ask, line, requests


@pytest.fixture
def lab():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    plane.take_notices()
    return f, plane, sm, s, h


def table(f, port, *keys):
    base, cap = int(f.pkey_base[port]), int(f.pkey_cap[port])
    f.pkeys[base : base + cap] = 0
    f.pkeys[base : base + len(keys)] = keys


def gmp(plane, port, dlid=13, index=0, klass=4):
    batch = requests(1, klass=klass, attr=1, dlid=dlid)
    batch.pkey_index[:], batch.sl[:] = index, 5
    return len(plane.send(batch, port)) == 1


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        (0xFFFF, 0xFFFF, True),
        (0x7FFF, 0xFFFF, True),
        (0xFFFF, 0x7FFF, True),
        (0x7FFF, 0x7FFF, False),
        (0x8001, 0xFFFF, False),
        (0x8000, 0x8000, False),
        (0x8001, 0x0001, True),
    ],
)
def test_who_reaches_whom(lab, mine, theirs, fits):
    f, plane, sm, _s, h = lab
    end = int(f.port(h[2], 1))
    table(f, sm, mine)
    table(f, end, 0x9999, theirs)
    assert gmp(plane, sm) == fits
    assert int(PortInfo.pkey_violations.get(f.port_info[end])) == (not fits)
    got = plane.take_notices()
    assert [(n.trap, n.port) for n in got] == ([] if fits else [(257, end)])
    for n in got:
        d = TrapBadKey.unpack(n.data)
        assert (d["lid1"], d["lid2"], d["key"], d["sl"], d["qp1"], d["qp2"]) == (11, 13, mine, 5, 1, 1)
    assert ask(plane, sm, klass=1, dlid=13)[0] == 0, "SMPs belong to no partition"


def test_the_index_chooses_the_key_and_clients_are_protected_too(lab):
    f, plane, sm, _s, h = lab
    table(f, sm, 0xFFFF, 0x8005)
    table(f, int(f.port(h[2], 1)), 0x8005)
    assert not gmp(plane, sm) and gmp(plane, sm, index=1) and not gmp(plane, sm, index=999)
    gmp(plane, sm, klass=3, index=0)
    assert plane.take_deliveries() == []
    gmp(plane, sm, klass=3, index=1)
    assert len(plane.take_deliveries()) == 1


@pytest.mark.parametrize(("number", "way", "counter"), [(7, "outbound", "xmit"), (8, "inbound", "rcv")])
def test_switch_ports_enforce(lab, number, way, counter):
    f, plane, sm, s, h = lab
    port, port0 = int(f.port(s[1], number)), int(f.port(s[1], 0))
    table(f, sm, 0xFFFF, 0x8005)
    table(f, port, 0xFFFF)
    end = int(f.port(h[2], 1))
    table(f, end, 0xFFFF, 0x8005)
    assert gmp(plane, sm, index=1), "nobody enforces yet"
    PortInfo.fields[f"partition_enforcement_{way}"].set(f.port_info[port], 1)
    able = int(PortInfo.cap_mask.get(f.port_info[port0]))
    assert able & CapMask.PKEY_EXT_PORT_TRAP
    PortInfo.cap_mask.set(f.port_info[port0], able & ~int(CapMask.PKEY_EXT_PORT_TRAP))
    before = f.counters["port_rcv_pkts"][end]
    assert gmp(plane, sm) and not gmp(plane, sm, index=1)
    assert f.counters[f"port_{counter}_constraint_errors"][port] == 1
    assert f.counters["port_rcv_pkts"][end] == before + 1, "only the first one arrived"
    assert plane.take_notices() == [], "this switch has no trap 259"
    PortInfo.cap_mask.set(f.port_info[port0], able)
    assert not gmp(plane, sm, index=1)
    (n,) = plane.take_notices()
    d = TrapBadSwitchPKey.unpack(n.data)
    assert (n.trap, n.port, d["lid1"], d["lid2"], d["pkey"], d["sl"]) == (259, port0, 11, 13, 0x8005, 5)
    assert (d["switch_lid"], d["portnum"], d["qp1"], d["qp2"]) == (2, number, 1, 1)
    assert ask(plane, sm, klass=1, dlid=13)[0] == 0


def test_enforcement_stops_answers_too(lab):
    f, plane, sm, s, _h = lab
    back = int(f.port(s[1], 8))
    PortInfo.partition_enforcement_outbound.set(f.port_info[back], 1)
    table(f, back, 0x8001)
    assert not gmp(plane, sm) and f.counters["port_xmit_constraint_errors"][back] == 1
    assert np.count_nonzero(f.counters["port_xmit_constraint_errors"]) == 1
    assert gmp(plane, sm, dlid=1), "the nearest switch is on this side of it"


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"), [(0x7FFF, 0xFFFF, True), (0xFFFF, 0x7FFF, True), (0x7FFF, 0x7FFF, False)]
)
def test_a_limited_member_behind_a_switch_that_enforces(lab, mine, theirs, fits):
    """OpenSM copies a host's P_Keys to the switch port before it: what the host sends comes in, and the answer, which
    carries the responder's key, goes out to it."""
    f, plane, sm, s, h = lab
    for host, switch, key in ((sm, s[0], mine), (int(f.port(h[2], 1)), s[2], theirs)):
        port = int(f.port(switch, 1))
        table(f, host, key)
        table(f, port, key)
        for way in ("inbound", "outbound"):
            PortInfo.fields[f"partition_enforcement_{way}"].set(f.port_info[port], 1)
    assert gmp(plane, sm) == fits
    refused = {w: f.counters[f"port_{w}_constraint_errors"] for w in ("xmit", "rcv")}
    assert refused["rcv"].sum() == 0
    assert np.flatnonzero(refused["xmit"]).tolist() == ([] if fits else [int(f.port(s[2], 1))]), "where it would leave"
