"""Alias GUIDs (IBA 15.2.5.18): a host sets or asks for more GUIDs of its port; paths lead to them, and the port's GUIDInfo holds them."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.sa import GUIDInfoRecord, PathRecord, SaMethod, SaStatus
from softib.iba.smp import PortInfo
from tests.sm.sa.asking import PREFIX, Asked, hosts

MINE, OTHER = 0x0200_DEAD_BEEF_0001, 0x0200_DEAD_BEEF_0002


@pytest.fixture
def asked():
    fabric = generate("fat-tree", radix=4, levels=2)
    ends = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
    assert (PortInfo.guid_cap.get(fabric.port_info[ends]) > 8).all()
    return Asked(fabric)


def change(a: Asked, port: int, method=SaMethod.SET, frm: int | None = None, **guids):
    return a.ask(GUIDInfoRecord, method, frm=port if frm is None else frm, lid=a.lid(port), block=0, **guids)


def held(a: Asked, port: int) -> list[int]:
    f = a.fabric
    return f.guids[int(f.guid_base[port]) : int(f.guid_base[port]) + 8].tolist()


def test_a_path_leads_to_an_alias_and_is_called_by_it(asked):
    source, target = hosts(asked)[[1, 5]].tolist()
    status, records = change(asked, target, guid1=MINE)
    assert status == 0 and int(GUIDInfoRecord.guid1.get(records[0])) == MINE
    assert int(GUIDInfoRecord.guid0.get(records[0])) == int(asked.fabric.port_guid[target])
    assert held(asked, target)[1] == MINE, "the port's GUIDInfo (SMP) holds it"
    dgid = np.array([PREFIX, MINE], np.uint64)
    status, paths = asked.ask(PathRecord, SaMethod.GET, frm=source, sgid=asked.gid(source), dgid=dgid)
    assert status == 0 and int(PathRecord.dlid.get(paths[0])) == asked.lid(target)
    assert PathRecord.dgid.get(paths[0]).tolist() == [PREFIX, MINE]
    _, plain = asked.ask(PathRecord, SaMethod.GET, frm=source, sgid=asked.gid(source), dgid=asked.gid(target))
    assert PathRecord.dgid.get(plain[0]).tolist() == [PREFIX, int(asked.fabric.port_guid[target])]
    _, table = asked.ask(GUIDInfoRecord, lid=asked.lid(target), block=0)
    assert int(GUIDInfoRecord.guid1.get(table[0])) == MINE


def test_the_administrator_gives_one_where_the_host_asks_with_zero(asked):
    first, second = hosts(asked)[[2, 3]].tolist()
    given = {int(GUIDInfoRecord.guid2.get(change(asked, port, guid2=0)[1][0])) for port in (first, second)}
    assert len(given) == 2 and all(g >> 57 & 1 for g in given), "locally administered, each its own"
    again = int(GUIDInfoRecord.guid2.get(change(asked, first, guid2=0)[1][0]))
    assert again in given, "asked again, the same"


def test_nobody_gets_the_guid_of_another(asked):
    a, b = hosts(asked)[[1, 4]].tolist()
    change(asked, a, guid1=MINE)
    _, records = change(asked, b, guid1=MINE, guid3=int(asked.fabric.port_guid[a]))
    assert not int(GUIDInfoRecord.guid1.get(records[0])) and not int(GUIDInfoRecord.guid3.get(records[0]))
    _, records = change(asked, a, guid0=OTHER)
    assert int(GUIDInfoRecord.guid0.get(records[0])) == int(asked.fabric.port_guid[a]), "entry 0 is read-only"
    status, _ = change(asked, a, frm=b, guid4=OTHER)
    assert status == SaStatus.REQ_INVALID, "nor may it say another's"
    status, _ = asked.ask(GUIDInfoRecord, SaMethod.SET, frm=a, lid=asked.lid(a), block=255, guid1=OTHER)
    assert status == SaStatus.REQ_INVALID
    assert (
        asked.ask(GUIDInfoRecord, SaMethod.SET, frm=a, lid=asked.lid(a), guid1=OTHER)[0]
        == SaStatus.REQ_INSUFFICIENT_COMPONENTS
    )


def test_an_alias_that_is_deleted_leads_nowhere(asked):
    source, target = hosts(asked)[[1, 5]].tolist()
    change(asked, target, guid1=MINE)
    change(asked, target, SaMethod.DELETE, guid1=0)
    dgid = np.array([PREFIX, MINE], np.uint64)
    status, _ = asked.ask(PathRecord, SaMethod.GET, frm=source, sgid=asked.gid(source), dgid=dgid)
    assert status == SaStatus.REQ_INVALID_GID and not held(asked, target)[1]


def test_a_port_that_comes_up_anew_gets_its_aliases_back(asked):
    f, port = asked.fabric, int(hosts(asked)[5])
    change(asked, port, guid1=MINE)
    cable = int(f.port_peer[port])
    asked.plane.set_link(cable, False, asked.now_ps)
    f.guids[int(f.guid_base[port]) + 1] = 0  # its firmware restarted
    asked.plane.set_link(cable, True, asked.now_ps)
    asked.sweep()
    assert held(asked, port)[1] == MINE


def test_a_port_that_leaves_takes_its_aliases_along(asked):
    f, source, port = asked.fabric, *hosts(asked)[[1, 5]].tolist()
    change(asked, port, guid1=MINE)
    asked.plane.set_link(int(f.port_peer[port]), False, asked.now_ps)
    asked.sweep()
    dgid = np.array([PREFIX, MINE], np.uint64)
    status, _ = asked.ask(PathRecord, SaMethod.GET, frm=source, sgid=asked.gid(source), dgid=dgid)
    assert status == SaStatus.REQ_INVALID_GID
