"""LIDs: kept where valid, aligned, unique, in OpenSM's order, and never more than there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import InputError, LimitError
from softib.iba.smp import NodeInfo, PortInfo
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.lid_mgr import assign
from tests.extent import examples


def database(cas: int, switches: int, lids: list[int] | None = None) -> Database:
    """CAs of one port, then switches of one port, GUIDs descending so that order by GUID shows."""
    db = Database()
    route = db.routes.add_local()
    n = cas + switches
    guid = np.arange(1000 + n, 1000, -1).astype(np.uint64)
    info = NodeInfo.pack(
        node_type=np.where(np.arange(n) < cas, 1, 2),
        num_ports=np.ones(n, int),
        node_guid=guid,
        port_guid=guid,
        local_port_num=1,
    )
    db.add_nodes(info, np.full(n, route, np.int32))
    db.has_port_info[:] = True
    ca_ports = np.flatnonzero(~db.is_switch[db.port_node])
    db.port_guid[ca_ports] = db.node_guid[db.port_node[ca_ports]]
    db.port_route[:] = route
    db.sm_port = int(ca_ports[0]) if cas else 0
    if lids is not None:
        PortInfo.lid.set(db.port_info, 0)
        ends = db.end_ports()
        image = db.port_info[ends]
        PortInfo.lid.set(image, np.array(lids[: len(ends)]))
        db.port_info[ends] = image
    return db


def blocks(db: Database) -> list[int]:
    ends = db.end_ports()
    out = []
    for lid, lmc in zip(db.port_lid[ends].tolist(), db.port_lmc[ends].tolist(), strict=True):
        assert lid > 0 and lid % (1 << lmc) == 0
        out += range(lid, lid + (1 << lmc))
    return out


@settings(max_examples=examples(80), deadline=None)
@given(cas=st.integers(1, 40), switches=st.integers(0, 12), lmc=st.integers(0, 7), data=st.data())
def test_lids_are_unique_aligned_and_kept(cas, switches, lmc, data):
    had = data.draw(st.lists(st.integers(0, 0xFFFF), min_size=cas + switches, max_size=cas + switches))
    db = database(cas, switches, had)
    assign(db, lmc)
    all_lids = blocks(db)
    assert len(all_lids) == len(set(all_lids)) == (cas << lmc) + switches
    assert min(all_lids) >= 1 and max(all_lids) <= 0xBFFF
    ends = db.end_ports()
    wide = np.where(db.port_num[ends] == 0, 0, lmc)
    taken: set[int] = set()
    # What the rule says must stay, stays: valid, aligned, and no port before it in the order has any of it.
    for port, lid, w in zip(ends.tolist(), had, wide.tolist(), strict=True):
        own = set(range(lid, lid + (1 << w)))
        if lid > 0 and lid % (1 << w) == 0 and max(own) <= 0xBFFF:
            if not own & taken:
                assert db.port_lid[port] == lid
            taken |= own


def test_opensm_order_the_managers_port_first_then_by_guid():
    db = database(3, 2)
    assign(db, 0)
    ends = db.end_ports()
    assert db.port_lid[db.sm_port] == 1
    assert db.port_lid[ends].tolist() == [1, 2, 3, 4, 5]
    guids = db.port_guid[ends[1:]].tolist()
    assert guids == sorted(guids)


def test_lids_fill_the_gaps_between_kept_ones():
    db = database(4, 0, [0, 1, 0, 3])
    assign(db, 0)
    assert db.port_lid[db.end_ports()].tolist() == [2, 1, 4, 3]


def test_49151_fit_and_one_more_does_not():
    db = database(49_000, 151)
    assign(db, 0)
    assert len(set(blocks(db))) == 49_151
    db = database(49_000, 152)
    with pytest.raises(LimitError, match="49,151"):
        assign(db, 0)
    assert not db.port_lid.any()
    db = database(24_576, 0)
    with pytest.raises(LimitError, match="49,151"):
        assign(db, 1)


def test_an_lmc_is_0_to_7():
    with pytest.raises(InputError, match="0 to 7"):
        SmConfig(lmc=8)
