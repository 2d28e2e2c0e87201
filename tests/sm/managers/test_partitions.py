"""Partitions: the file's grammar, and what devices hold afterwards, read from the fabric's own tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import InputError, SoftibError
from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import PortState
from softib.iba.sa import SaMethod, SaStatus
from softib.iba.smp import PortInfo
from softib.sm.managers.partitions import DEFAULT_PARTITIONS, FULL, LIMITED, parse_partitions
from tests.extent import examples
from tests.sm.sa.asking import Asked, hosts

FILE = """
# who may talk to whom
Default=0x7fff, ipoib : ALL, SELF=full ;
storage=0x8010, ipoib, mtu=4096, rate=16, sl=2, defmember=limited :
    {0}=full, {1}, {2} ;
compute = 0x20 , indx0 : {2} = full,{3}=full, mgid=ff12:401b:8020::7, sl=1 ;
"""


@pytest.fixture(scope="module")
def net():
    fabric = generate("fat-tree", radix=4, levels=2)
    guids = [hex(int(g)) for g in fabric.port_guid[np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])]]
    return Asked(fabric, partitions=tuple(parse_partitions(FILE.format(*guids[1:5]))))


def table(a: Asked, port: int) -> list[int]:
    f = a.fabric
    first, cap = int(f.pkey_base[port]), int(f.pkey_cap[port])
    return [k for k in f.pkeys[first : first + cap].tolist() if k]


def test_what_devices_hold(net):
    me, a, b, c, d, *others = hosts(net).tolist()
    assert table(net, me) == [0xFFFF] and all(table(net, p) == [0x7FFF] for p in others)
    assert table(net, a) == [0x7FFF, 0x8010] and table(net, b) == [0x7FFF, 0x0010]
    assert sorted(table(net, c)) == [0x0010, 0x7FFF, 0x8020] and table(net, c)[0] == 0x8020, "indx0"
    assert table(net, d)[0] == 0x8020
    f = net.fabric
    for port in hosts(net).tolist():
        leaf = int(f.port_peer[port])
        assert sorted(table(net, leaf)) == sorted(table(net, port)), "the switch port checks what its CA holds"
        assert PortInfo.partition_enforcement_inbound.get(f.port_info[leaf]) == 1
    assert (f.port_state[f.linked] == PortState.ACTIVE).all()
    before = f.pkeys.copy()
    net.sweep()
    assert net.sm.report.sets == 0 and (f.pkeys == before).all(), "a second sweep has nothing to do"


@pytest.mark.parametrize("pkeys", [(0x10, 0x6), (0x6, 0x10)])
def test_the_last_of_two_partitions_is_at_index_0(pkeys):
    """Stock OpenSM 3.3.23 with the same two files on a softib fabric: the last line has index 0."""
    fabric = generate("fat-tree", radix=4, levels=2)
    guid = int(fabric.port_guid[np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])[1]])
    lines = "".join(f"p{k}={k:#x}, indx0 : {guid:#x}=full ;\n" for k in pkeys)
    a = Asked(fabric, partitions=tuple(parse_partitions("Default=0x7fff : ALL=limited, SELF=full ;\n" + lines)))
    held = table(a, int(np.flatnonzero(a.fabric.port_guid == guid)[0]))
    assert held[0] == pkeys[1] | 0x8000 and sorted(held) == sorted([0x7FFF, *(k | 0x8000 for k in pkeys)])


def test_paths_go_where_a_partition_is_shared(net):
    me, a, b, c, d, x, *_ = hosts(net).tolist()
    P, M = sa.PathRecord, SaMethod.GET
    path = lambda s, t, **w: net.ask(P, M, sgid=net.gid(s), dgid=net.gid(t), **w)
    assert path(me, x)[0] == 0, "the manager is a full member of the default partition"
    assert path(b, x)[0] == SaStatus.NO_RECORDS, "two limited members"
    assert path(b, c)[0] == SaStatus.NO_RECORDS, "limited in the default partition and in storage"
    status, records = path(b, a)
    assert status == 0 and int(P.pkey.get(records[0])) == 0x0010 and int(P.sl.get(records[0])) == 2
    assert int(P.pkey.get(path(c, d)[1][0])) == 0x8020
    assert path(a, c, pkey=0x8020)[0] == SaStatus.NO_RECORDS
    assert path(me, a, pkey=0xFFFF)[0] == 0


def test_groups_of_partitions(net):
    R = sa.MCMemberRecord
    me, a, b, *_ = hosts(net).tolist()
    _, groups = net.ask(R, frm=a)
    found = {int(R.pkey.get(g)): g for g in groups}
    assert {0xFFFF, 0x8010} <= set(found)
    storage = found[0x8010]
    assert (int(R.mtu.get(storage)), int(R.rate.get(storage)), int(R.sl.get(storage))) == (5, 16, 2)
    mgid = R.mgid.get(storage)
    assert net.ask(R, SaMethod.SET, frm=b, mgid=mgid, port_gid=net.gid(b), join_state=1)[0] == 0
    assert net.ask(R, SaMethod.SET, frm=me, mgid=mgid, port_gid=net.gid(me), join_state=1)[0] == SaStatus.REQ_INVALID
    assert 0x8010 not in R.pkey.get(net.ask(R, frm=me)[1]).tolist(), "who is no member does not see the group"


def test_without_a_word_of_default_all_are_limited_but_the_manager():
    (default, mine) = parse_partitions("mine=5:ALL=full;")
    assert default.pkey == 0x7FFF and default.members == [("ALL", LIMITED), ("SELF", FULL)]
    assert mine.members == [("ALL", FULL)] and mine.name == "mine"
    assert [p.pkey for p in parse_partitions("a:ALL; b:ALL;")] == [0x7FFF, 1, 2], "without a P_Key the lowest free one"
    assert parse_partitions("x=3:ALL_CAS;\nx=0x8003:SELF=both;")[1].members == [
        ("ALL_CAS", LIMITED),
        ("SELF", FULL | LIMITED),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n\nx=0x10 ALL;", "f:3: no ':'"),
        ("x=0x10 : ALL", "f:1: the partition has no end"),
        ("x=0x18000 : ALL;", "too large"),
        ("x=zap : ALL;", "'zap' is not a number"),
        ("x=0 : ALL;", "P_Key 0 is not valid"),
        ("x=1, wat : ALL;", "unknown keyword 'wat'"),
        ("x=1 : ALL=most;", "'most' is not a membership"),
        ("x=1 : EVERYBODY;", "'EVERYBODY' is not a port; use a PortGUID ('ibstat -p'"),
        ("x=1 : mgid=fe80::1;", "not a multicast GID"),
        ("x=1, ipoib, sl=77 : ALL;", "sl: 77 is too large"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, says):
    with pytest.raises(InputError) as error:
        parse_partitions(text, "f")
    assert says in str(error.value) and "\n" not in str(error.value)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet="x=0f7,:;# \nALipobmgdsl", max_size=60))
def test_no_text_raises_anything_else(text):
    try:
        assert parse_partitions(text)[0].pkey == 0x7FFF
    except SoftibError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(("word", "inbound", "outbound"), [("in", 1, 0), ("out", 0, 1), ("off", 0, 0)])
def test_part_enforce_says_which_way_switch_ports_check(word, inbound, outbound):
    """OpenSM's part_enforce; the second manager takes back what the first one, with both, has set."""
    fabric = generate("fat-tree", radix=4, levels=2)
    leaf = fabric.port_peer[hosts(Asked(fabric, partitions=tuple(DEFAULT_PARTITIONS)))]
    P = PortInfo
    assert P.partition_enforcement_inbound.get(fabric.port_info[leaf]).all()
    a = Asked(fabric, partitions=tuple(DEFAULT_PARTITIONS), part_enforce=word)
    assert (P.partition_enforcement_inbound.get(fabric.port_info[leaf]) == inbound).all()
    assert (P.partition_enforcement_outbound.get(fabric.port_info[leaf]) == outbound).all()
    a.sweep()
    assert a.sm.report.sets == 0
