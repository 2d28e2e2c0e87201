"""Disables and enables switch ports with Set(PortInfo), like ibportstate, and checks the manager's reaction."""

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
from softib.live.umad_client.wire import MadWire
from softib.plural import counted
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.link_mgr import unchanged

__all__ = ["cut_off", "disable", "enable", "joins_parts", "link_states", "lost_pairs", "rerouted", "switched"]

LOOKS_S = 1.0
COMES_UP_S = 5
"""Time in seconds within which devices behind enabled ports must appear."""


def _quiet(what: str, nodes: int, mads: int) -> None:
    """Ignore a report of progress."""


def _reader(wire: MadWire) -> SubnetReader:
    reader = SubnetReader(wire, SmConfig(), _quiet)
    reader.nodes()
    if reader.subnet.db.sm_port < 0:
        raise PeerError("the port itself does not answer; no change was made")
    return reader


def _row(reader: SubnetReader, end: End) -> int:
    """Return the row of a switch port; -1 if the subnet does not have the port."""
    return _row_of(reader.subnet.db, end)


def _row_of(db: Database, end: End) -> int:
    node = db.node_of(end[0])
    if node < 0 or not db.is_switch[node] or not 0 < end[1] <= int(db.node_nports[node]):
        return -1
    return int(db.node_base[node]) + end[1]


def _set(reader: SubnetReader, row: int, phys: PhysState) -> str:
    """Set PortPhysState of a switch port. Return the reason for a failure, or an empty text if the answer has the new
    state."""
    db, failed = reader.subnet.db, "the port did not confirm the state"
    image = unchanged(db.port_info[[row]].copy())
    PortInfo.port_phys_state.set(image, int(phys))
    rows = np.array([row], np.int64)
    reader.queue.set(SmpAttr.PORT_INFO, db.port_route[rows], rows, db.port_modifier(rows), image)

    def lost(attr: int, tags: np.ndarray, why: str) -> None:
        nonlocal failed
        failed = f"Set(PortInfo) {why} (an M_Key may protect the port)"

    def answered(attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        nonlocal failed
        is_disabled = bool(PortInfo.port_phys_state.get(data[0]) == PhysState.DISABLED)
        failed = "" if is_disabled == (phys == PhysState.DISABLED) else "the port did not change"

    reader.drive("ports", answered, lost)
    return failed


def switched(
    wire: MadWire, cables: Sequence[Sequence[End]], phys: PhysState, away: frozenset[int] = frozenset()
) -> list[tuple[End | None, str]]:
    """Disable cables (DISABLED), each at the end nearest to this port, or enable disabled cables
    (POLLING). Returns the switched end of each and an empty text, or None and the reason. ``away``: NodeGUIDs of
    unreachable devices. Their cables are disabled at the other end, where they can be enabled again.

    The subnet is read again after the Sets, because the answers, and the paths to other ports, may have crossed a port
    that is now disabled.
    """
    out: list[tuple[End | None, str]] = [(None, "neither end is a switch port that answers")] * len(cables)
    disables, tried, confirmed = phys == PhysState.DISABLED, set[int](), set[int]()
    before, looks = list[tuple[int, End]](), COMES_UP_S if phys == PhysState.POLLING else 0
    while True:
        reader, wrong, absent = _reader(wire), list[tuple[int, int, End]](), False
        for i, ends in enumerate(cables):
            rows = _switch_rows(reader, ends, away)
            opposite = [row for row in rows if not _is(reader, row[0], phys)]
            if phys == PhysState.DISABLED:
                opposite = rows[:1] if len(opposite) == len(rows) else []
            wrong += [(i, *row) for row in opposite]
            if rows and not opposite:
                out[i] = rows[0][1], ""
            elif not rows and any(end[0] in away for end in ends) and disables and (i in confirmed or i not in tried):
                out[i] = ends[0], ""  # the port is cut off together with its device
            absent |= not rows
        left = [(i, end) for i, _, end in wrong]
        if (not left or left == before) and not (absent and looks):
            return out
        hops = reader.subnet.db.routes.hops[reader.subnet.db.port_route[[row for _, row, _ in wrong]]]
        for at in np.argsort(-hops, kind="stable").tolist():
            i, row, _ = wrong[at]
            why = _set(reader, row, phys)
            tried.add(i)
            confirmed |= set() if why else {i}
            out[i] = None, why or "the port did not change"
        if absent and looks:  # devices behind a port that has just come up may not answer yet
            time.sleep(LOOKS_S)
            looks -= 1
        before = left


def cut_off(wire: MadWire, cables: Iterable[Sequence[End]]) -> str:
    """Return the reason why these cables must stay in use (without them, the port of this host or of the subnet manager
    would not be in the largest part of the subnet), or an empty text."""
    db = _reader(wire).subnet.db
    end_ports = db.end_ports()
    masters = end_ports[
        PortInfo.lid.get(db.port_info[end_ports]) == PortInfo.master_sm_lid.get(db.port_info[db.sm_port])
    ]
    rows = np.flatnonzero(db.port_peer[: db.n_ports] >= 0)
    lost = [_row_of(db, end) for ends in cables for end in ends]
    rows = rows[~np.isin(rows, lost) & ~np.isin(db.port_peer[rows], lost)]
    part = components(db.n_nodes, db.port_node[rows], db.port_node[db.port_peer[rows]])
    sizes = np.bincount(part, minlength=db.n_nodes)
    for row, what in ((db.sm_port, "this host"), *((int(row), "the subnet manager") for row in masters)):
        mine = part[db.port_node[row]]
        if sizes[mine] <= np.delete(sizes, mine).max(initial=0):
            return (
                f"{db.port_name(row)} is the port of {what} and would reach {counted(int(sizes[mine]) - 1, 'node')} of "
                f"{db.n_nodes - 1}; no port was disabled, leave out its port and its last cables to other switches"
            )
    return ""


def _switch_rows(reader: SubnetReader, ends: Sequence[End], away: frozenset[int]) -> list[tuple[int, End]]:
    """Return the rows of those ends that are switch ports, the preferred end first."""
    db = reader.subnet.db
    rows = [(row, end) for end in ends if (row := _row(reader, end)) >= 0]
    return sorted(rows, key=lambda one: (one[1][0] in away, int(db.routes.hops[db.port_route[one[0]]])))


def _is(reader: SubnetReader, row: int, phys: PhysState) -> bool:
    """Return whether the port is disabled (for DISABLED) or enabled (for POLLING)."""
    is_disabled = PortInfo.port_phys_state.get(reader.subnet.db.port_info[row]) == PhysState.DISABLED
    return bool(is_disabled == (phys == PhysState.DISABLED))


def disable(wire: MadWire, ends: Sequence[End]) -> tuple[End | None, str]:
    """Disable one cable; see :func:`switched`."""
    return switched(wire, [ends], PhysState.DISABLED)[0]


def enable(wire: MadWire, end: End) -> str:
    """Enable a port. Return the reason for a failure, or an empty text."""
    return switched(wire, [[end]], PhysState.POLLING)[0][1]


def link_states(wire: MadWire, ends: Iterable[End]) -> dict[End, tuple[PortState, PhysState]]:
    """Return PortState and PortPhysState of switch ports, read by MADs, without ports that do not answer."""
    reader = _reader(wire)
    db, out = reader.subnet.db, {}
    for end in ends:
        row = _row(reader, end)
        if row >= 0 and db.has_port_info[row]:
            state, phys = PortInfo.port_state.get(db.port_info[row]), PortInfo.port_phys_state.get(db.port_info[row])
            out[end] = PortState(int(state)), PhysState(int(phys))
    return out


def joins_parts(fabric: Fabric, ends: Iterable[Sequence[End]]) -> bool:
    """Return whether these cables are the only connection between parts of the fabric. A single node that cannot be
    reached otherwise also counts as a part."""
    cables = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    part = components(fabric.sizes.nodes, fabric.port_node[cables[:, 0]], fabric.port_node[cables[:, 1]])
    rows = {int(g): i for i, g in enumerate(fabric.node_guid.tolist())}
    return any(len({int(part[rows[guid]]) if guid in rows else -1 for guid, _ in both}) > 1 for both in ends)


def lost_pairs(result: ReadResult) -> int:
    """Return the number of pairs of ports without a path in the switches' tables, plus the number of
    ports without a LID. Raises :class:`PeerError` if no switch has tables."""
    part = as_programmed(result, lambda name: nullcontext()).part
    return part.unreachable + part.ports_without_lid


def rerouted(wire: MadWire, source: str, end: End, lost: int, patience_s: float) -> str:
    """Wait until the manager has changed the routes around a disabled port. Return an empty text as soon as the port is
    Disabled, no forwarding table uses it, and at most ``lost`` pairs have no path; return the error if this takes
    longer than ``patience_s``."""
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
