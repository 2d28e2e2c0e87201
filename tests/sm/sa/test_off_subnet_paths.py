"""PathRecords to GIDs of other subnets: the LID of a router, the GID that was asked for, a HopLimit above 1 (IBA chapter 19)."""

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.sa import PathRecord, SaMethod, SaStatus
from softib.sm.managers.partitions import parse_partitions
from tests.sm.sa.asking import PREFIX, Asked

AWAY = 0xFEC0000000000001


def subnet(routers: int, **config) -> Asked:
    fabric = generate("fat-tree", radix=4, levels=2)
    for port in hosts_of(fabric)[-routers:] if routers else ():
        fabric.node_type[fabric.port_node[port]] = NodeType.ROUTER
    return Asked(fabric, **config)


def hosts_of(fabric):
    return np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node]).tolist()


def path(a, source, gid, method=SaMethod.GET):
    return a.ask(PathRecord, method, frm=source, sgid=a.gid(source), dgid=np.array(gid, np.uint64))


@pytest.mark.parametrize("method", [SaMethod.GET, SaMethod.GET_TABLE])
def test_a_gid_of_another_subnet_leads_to_the_router(method):
    a = subnet(1)
    source, router = hosts_of(a.fabric)[1], hosts_of(a.fabric)[-1]
    status, records = path(a, source, [AWAY, 0x1234], method)
    assert status == 0 and len(records) == 1
    assert PathRecord.dgid.get(records)[0].tolist() == [AWAY, 0x1234]
    assert int(PathRecord.dlid.get(records)[0]) == a.lid(router) and int(PathRecord.hop_limit.get(records)[0]) == 255
    _, here = path(a, source, [PREFIX, int(a.fabric.port_guid[router])])
    for field in ("slid", "sl", "mtu", "rate", "pkey", "packet_life_time"):
        assert PathRecord.fields[field].get(here)[0] == PathRecord.fields[field].get(records)[0], "the same way"
    assert int(PathRecord.hop_limit.get(here)[0]) == 0


def test_without_a_router_such_a_gid_is_unknown_as_before():
    a = subnet(0)
    assert path(a, hosts_of(a.fabric)[1], [AWAY, 0x1234])[0] == SaStatus.REQ_INVALID_GID


def test_destinations_are_shared_out_among_routers_and_keep_theirs():
    a = subnet(2)
    source, routers = hosts_of(a.fabric)[1], hosts_of(a.fabric)[-2:]
    lids = [int(PathRecord.dlid.get(path(a, source, [AWAY, guid])[1])[0]) for guid in range(1, 9)]
    assert set(lids) == {a.lid(r) for r in routers}
    assert lids == [int(PathRecord.dlid.get(path(a, source, [AWAY, guid])[1])[0]) for guid in range(1, 9)]


@pytest.mark.parametrize(
    ("members", "status"), [("SELF=full", SaStatus.NO_RECORDS), ("SELF=full, ALL_ROUTERS=full", 0)]
)
def test_a_router_is_a_way_for_those_who_share_a_partition_with_it(members, status):
    """Two limited members of the default partition share none (IBA 10.9.3)."""
    a = subnet(1, partitions=tuple(parse_partitions(f"Default=0x7fff: {members};\n")))
    assert path(a, hosts_of(a.fabric)[1], [AWAY, 1])[0] == status
