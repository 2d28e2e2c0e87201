"""Disable and enable switch ports with Set(PortInfo), as ibportstate does, and check what the manager made of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

import numpy as np

from softib.analysis.isolation import End
from softib.analysis.routed import as_programmed
from softib.components import components
from softib.errors import PeerError, SoftibError
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.iba.constants import PhysState, PortState, SmpAttr
from softib.iba.smp import PortInfo
from softib.live.subnet_reader import SubnetReader, read_wire
from softib.live.umad_sm.wire import MadWire
from softib.plural import counted
from softib.sm.config import SmConfig
from softib.sm.managers.link_mgr import unchanged

__all__ = ["disable", "enable", "joins_parts", "link_states", "lost_pairs", "rerouted"]

LOOKS_S = 1.0


def _quiet(what: str, nodes: int, mads: int) -> None:
    """No progress is shown."""


def _reader(wire: MadWire) -> SubnetReader:
    reader = SubnetReader(wire, SmConfig(), _quiet)
    reader.nodes()
    if reader.subnet.db.sm_port < 0:
        raise PeerError("the port itself does not answer; nothing was changed")
    return reader


def _row(reader: SubnetReader, end: End) -> int:
    """Row of a switch port; -1 where the subnet has none."""
    db = reader.subnet.db
    node = db.node_of(end[0])
    if node < 0 or not db.is_switch[node] or not 0 < end[1] <= int(db.node_nports[node]):
        return -1
    return int(db.node_base[node]) + end[1]


def _set(reader: SubnetReader, row: int, phys: PhysState) -> str:
    """Set PortPhysState of a switch port. Returns the reason where that fails, or an empty text."""
    db, failed = reader.subnet.db, ""
    image = unchanged(db.port_info[[row]].copy())
    PortInfo.port_phys_state.set(image, int(phys))
    rows = np.array([row], np.int64)
    reader.queue.set(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows), image)

    def lost(attr: int, tags: np.ndarray, why: str) -> None:
        nonlocal failed
        failed = f"Set(PortInfo) {why} (an M_Key may protect the port)"

    reader.drive("ports", lambda attr, tags, data: None, lost)
    return failed


def disable(wire: MadWire, ends: Sequence[End]) -> tuple[End | None, str]:
    """Disable the end of a cable that is nearest to this port. Returns it and an empty text, or None and the reason."""
    reader = _reader(wire)
    db = reader.subnet.db
    rows = [(row, end) for end in ends if (row := _row(reader, end)) >= 0]
    rows.sort(key=lambda one: int(db.routes.hops[db.port_route[one[0]]]))
    if not rows:
        return None, "neither end is a switch port that answers"
    row, end = rows[0]
    why = _set(reader, row, PhysState.DISABLED)
    return (None, why) if why else (end, "")


def enable(wire: MadWire, end: End) -> str:
    """Enable a port. Returns the reason where that fails, or an empty text."""
    reader = _reader(wire)
    row = _row(reader, end)
    return "the switch does not answer" if row < 0 else _set(reader, row, PhysState.POLLING)


def link_states(wire: MadWire, ends: Iterable[End]) -> dict[End, tuple[PortState, PhysState]]:
    """PortState and PortPhysState of switch ports, read by MADs; a port that does not answer is absent."""
    reader = _reader(wire)
    db, out = reader.subnet.db, {}
    for end in ends:
        row = _row(reader, end)
        if row >= 0 and db.has_port_info[row]:
            state, phys = PortInfo.port_state.get(db.port_info[row]), PortInfo.port_phys_state.get(db.port_info[row])
            out[end] = PortState(int(state)), PhysState(int(phys))
    return out


def joins_parts(fabric: Fabric, ends: Iterable[Sequence[End]]) -> bool:
    """Do cables between these ends join parts of the fabric that nothing else joins? A node that cannot be seen is
    such a part."""
    cables = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    part = components(fabric.sizes.nodes, fabric.port_node[cables[:, 0]], fabric.port_node[cables[:, 1]])
    rows = {int(g): i for i, g in enumerate(fabric.node_guid.tolist())}
    return any(len({int(part[rows[guid]]) if guid in rows else -1 for guid, _ in both}) > 1 for both in ends)


def lost_pairs(result: ReadResult) -> int:
    """Pairs of ports without a path by the tables in the switches, and ports without a LID. Raises
    :class:`PeerError` where no switch has tables."""
    part = as_programmed(result, lambda name: nullcontext()).part
    return part.unreachable + part.ports_without_lid


def rerouted(wire: MadWire, source: str, end: End, lost: int, patience_s: float) -> str:
    """Wait until the manager has routed around a disabled port. Returns what is wrong after ``patience_s``, or an
    empty text: the port is Disabled, no forwarding table uses it, and no more than ``lost`` pairs have no path."""
    until = time.monotonic() + patience_s
    while True:
        try:
            why = _wrong(read_wire(wire, source), end, lost)
        except SoftibError as error:
            why = str(error)
        if not why or time.monotonic() >= until:
            return why
        time.sleep(LOOKS_S)


def _wrong(result: ReadResult, end: End, lost: int) -> str:
    f = result.fabric
    node = int(np.flatnonzero(f.node_guid == np.uint64(end[0]))[0])
    port = int(f.node_base[node]) + end[1]
    if PortInfo.port_phys_state.get(f.port_info[port]) != PhysState.DISABLED:
        return f"{f.port_name(port)} is not Disabled"
    routed = as_programmed(result, lambda name: nullcontext())
    lids = np.flatnonzero(routed.lft[int(f.switch_of_node[node])] == end[1])
    used = np.intersect1d(lids, f.lid[f.end_ports()])
    if len(used):
        return f"the table of {f.node_name(node)} still uses port {end[1]} for {counted(len(used), 'LID')}"
    now = routed.part.unreachable + routed.part.ports_without_lid
    if now > lost:
        return f"{counted(now - lost, 'pair')} of ports lost their path"
    return ""
