"""The administrator's database as text: written and read back it is the same; a dump of stock OpenSM's form is read; what is damaged is one line."""

from __future__ import annotations

import random

import numpy as np
import pytest

from softib.errors import InputError
from softib.iba import sa
from softib.iba.sa import SaMethod
from softib.sm.sa.dump import dump, read_dump
from tests.sm.replication.replication_lab import Lab

# Lines as `opensm` with sa_db_dump writes them (format strings of osm_sa.c), GUIDs invented.
OPENSM = """MC Group 0xc000  (well known): mgid=0xff12401bffff0000:0x00000000ffffffff port_gid=0x0000000000000000:0x0000000000000000 qkey=0x00000b1b mlid=0xc000 mtu=0x84 tclass=0x00 pkey=0xffff rate=0x83 pkt_life=0x92 sl_flow_hop=0x00000000 scope_state=0x20 proxy_join=0x0

mcm_port: port_gid=0xfe80000000000000:0x0002c90300000b03 scope_state=0x21 proxy_join=0x0

InformInfo Record: subscriber_gid=0xfe80000000000000:0x0002c90300000b03 subscriber_enum=0x0 InformInfo: gid=0x0000000000000000:0x0000000000000000 lid_range_begin=0xffff lid_range_end=0x0 is_generic=0x1 subscribe=0x1 trap_type=0xffff trap_num=0x40 qpn_resp_time_val=0x112 node_type=0x000004 rep_addr: lid=0x0005 path_bits=0x00 static_rate=0x00 remote_qp=0x00000001 remote_qkey=0x80010000 pkey_ix=0x0000 sl=0x00

Service Record: id=0x0000000000000007 gid=0xfe80000000000000:0x0002c90300000b03 pkey=0xffff lease=0xffffffff key=0x0000000000000000:0x0000000000000000 name='storage one' data8=0x0102030405060708:0x0000000000000000 data16=0x0001000200030004:0x0000000000000000 data32=0x0000000100000002:0x0000000000000000 data64=0x0000000000000009:0x0000000000000000 modified_time=0x5f lease_period=0xffffffff

"""


def test_opensm_s_own_form_is_read():
    copy = read_dump(OPENSM, "opensm-sa.dump", 0)
    (group,) = copy.groups
    assert (group.mlid, group.qkey, group.mtu, group.rate, group.packet_life_time, group.pkey) == (
        0xC000,
        0xB1B,
        4,
        3,
        18,
        0xFFFF,
    )
    assert {g: m.join_state for g, m in group.members.items()} == {0x0002C90300000B03: 1}
    (s,) = copy.subscriptions
    inform = sa.InformInfo.unpack(np.frombuffer(s.inform, np.uint8))
    assert (s.lid, s.qp, int(inform["trap_number"]), int(inform["qpn"]), int(inform["resp_time_value"])) == (
        5,
        1,
        64,
        1,
        18,
    )
    ((record, _, _),) = copy.services.values()
    service = sa.ServiceRecord.unpack(record)
    assert (
        int(service["service_id"]) == 7
        and service["data16"].tolist()[:4] == [1, 2, 3, 4]
        and service["data64"].tolist() == [9, 0]
    )
    assert record[48:].tobytes().find(b"storage one") >= 0


def test_written_and_read_back_it_is_the_same():
    s = Lab(a=1)
    s.start("a")
    s.populate("a")
    gid = np.array([0xFE80000000000000, 77], np.uint64)
    s.request(
        "a",
        5,
        sa.ServiceRecord,
        SaMethod.SET,
        service_id=9,
        service_gid=gid,
        service_pkey=0xFFFF,
        data8=np.arange(16),
        data32=np.array([1, 2, 3, 0xFFFFFFFF]),
        service_key=np.array([5, 6], np.uint64),
    )
    s.run(1)
    manager = s.sm["a"].sa_manager
    copy = read_dump(dump(manager, s.now_ps), "dump", s.now_ps)
    assert {g.mgid: (g.mlid, g.qkey, g.mtu, g.rate, g.pkey, g.sl, g.members) for g in copy.groups} == {
        g.mgid: (g.mlid, g.qkey, g.mtu, g.rate, g.pkey, g.sl, g.members) for g in manager.groups.groups.values()
    }
    assert copy.subscriptions == manager.subscriptions.all
    assert {k: (r[8:28].tobytes(), r[32:].tobytes(), lid) for k, (r, _, lid) in copy.services.items()} == {
        k: (r[8:28].tobytes(), r[32:].tobytes(), lid) for k, (r, _, lid) in manager.services.records.items()
    }


def test_a_manager_that_starts_with_a_dump_knows_its_hosts():
    s = Lab(a=1, b=1)
    s.start("a")
    s.populate("a")
    knew, text = s.known("a"), dump(s.sm["a"].sa_manager, s.now_ps)
    s.kill("a")
    copy = read_dump(text, "dump", s.now_ps)
    copy.here = list(s.sm["a"].lids)
    s.sm["b"].sa_manager.restore(copy, s.sm["b"].config)
    s.reregisters = 0
    s.start("b")
    assert s.state("b") == "MASTER" and s.reregisters == 0
    assert s.known("b")[0] == knew[0] and s.known("b")[2] == knew[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mlid=0xc000", "mlid=0x0004"),
        ("qkey=0x00000b1b", "qkey=zz"),
        ("pkey=0xffff rate", "rate"),
        ("lease=0xffffffff key", "lease=0x1ffffffff key"),
        ("data16=0x0001", "data16=0x001"),
    ],
)
def test_what_cannot_be_read_is_one_line(old, new):
    with pytest.raises(InputError, match=r"^opensm-sa.dump:\d+: "):
        read_dump(OPENSM.replace(old, new), "opensm-sa.dump", 0)


def test_any_text_is_read_or_refused():
    rng = random.Random(9)
    for _ in range(400):
        text = list(OPENSM)
        for _ in range(rng.randrange(1, 12)):
            text[rng.randrange(len(text))] = chr(rng.randrange(32, 127))
        try:
            read_dump("".join(text), "f", 0)
        except InputError as error:
            assert "\n" not in str(error)
