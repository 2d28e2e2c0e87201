"""A GUID of a virtual function, as ib-kubernetes gives one to a pod, is programmed when its own table and that of the switch port in front hold the P_Key."""

from __future__ import annotations

import pytest

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

from softib.iba.vendor.vports import VPortInfo
from softib.tenants import changes
from softib.tenants.changes import Options
from tests.tenants.subnet_lab import SubnetLab, members

DEFAULT = 0xFFFF


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    made = SubnetLab(tmp_path_factory.mktemp("tenants"), functions=(0, 2))
    try:
        yield made
    finally:
        made.close()


def add(lab, pkey, guids):
    return lab.change(lambda d: changes.add_members(d, pkey, guids, Options(), lab.service.view.room))


def virtual(lab, index: int) -> tuple[int, list[int]]:
    """GUID and P_Keys of a virtual port of the second host, in the device's memory."""
    f, row = lab.fabric, lab.rows[lab.hosts[1]]
    at = int(f.vport_base[row]) + index
    return int(VPortInfo.vport_guid.get(f.vport_info[at])), [k for k in f.vport_pkeys[at].tolist() if k]


def test_functions_are_programmed_one_by_one_and_read_back(lab):
    host, other = lab.hosts[1], lab.hosts[2]
    (first, _), (second, _) = virtual(lab, 1), virtual(lab, 2)
    assert {first, second} <= lab.service.view.ports.keys()
    assert lab.service.view.names[lab.service.view.ports[host].node] == [host], (
        "a host's name does not add its functions"
    )
    assert lab.settled(add(lab, 5, members(first, other))).state == "programmed"
    assert set(virtual(lab, 1)[1]) == {0x8005, DEFAULT} and virtual(lab, 2)[1] == [DEFAULT]
    f, row = lab.fabric, lab.rows[host]
    assert set(lab._table(int(f.port_peer[row]))) == {0x8005, DEFAULT} and lab._table(row) == [DEFAULT]
    partition = lab.service.state.partitions[5]
    assert lab.service.programmed(partition, first) and not lab.service.programmed(partition, second)
    assert lab.settled(add(lab, 6, members(host, second))).state == "programmed"
    assert set(lab._table(row)) == {0x8006, DEFAULT} and set(virtual(lab, 2)[1]) == {0x8006, DEFAULT}
    meets = lab.service.isolation([first, second]).meets
    assert {m.pkey for m in meets} == {0x7FFF} and any({m.a, m.b} == {first, second} for m in meets)
    gone = lab.change(lambda d: changes.remove_members(d, 5, [first]))
    assert lab.settled(gone).state == "programmed" and virtual(lab, 1)[1] == [DEFAULT]
    assert not [x for x in lab.service.findings() if x.kind == "drift"]
