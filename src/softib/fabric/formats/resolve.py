"""Make a fabric from records: pair port records into cables, and write LIDs, states and speeds into
the PortInfo images.

A port record states: port *a* of this node is cabled to port *b* of node X. Two records that name
each other are a cable. If the record of the other port is missing, the cable is one-sided. If X has
no node record, or its record contradicts this one, the cable has only this end (unknown peer).
Every unconfirmed record is a ``Problem`` at its line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import LimitError, UnreadableFile
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import node_name_map as node_name_map_module
from softib.fabric.formats.base import Problems, ReadResult, shown
from softib.fabric.formats.pairing import Cables, merge_repeated_nodes, pair
from softib.fabric.formats.records import UNKNOWN, Records
from softib.fabric.identity import Stated
from softib.fabric.model import Fabric, Source
from softib.fabric.power_cycle import power_on
from softib.fabric.power_up import ADVERTISED_FROM, advertise_fec, port_info_image
from softib.iba.constants import NodeType, PhysState
from softib.iba.devices import DEVICES, is_aggregation_node
from softib.iba.rates import SPEED_BY_NAME
from softib.iba.smp import PortInfo, SwitchInfo
from softib.input_files import shown_name, stem
from softib.plural import counted, plural

__all__ = ["named", "to_fabric"]

SIZE_LIMIT = 8 << 30
"""Maximum number of bytes for the tables of one file: four times the need of 65,536 hosts on 5,120
switches.
"""


def to_fabric(
    r: Records,
    path: Path,
    format: str,
    problems: Problems,
    *,
    records: frozenset[str] = frozenset(),
    mlids: int = 1024,
) -> ReadResult:
    """Build the fabric that ``r`` describes. ``records`` adds kinds of recorded data that do not
    follow from the columns of ``r``. Raises :class:`UnreadableFile` if there is no node.
    """
    if not r.key:
        raise UnreadableFile(
            f"{shown_name(path)}: no node record can be read" + (f"; first: {problems[0]}" if problems else "")
        )
    index = merge_repeated_nodes(r, problems)
    columns = {n: np.array(getattr(r, n), np.int64) for n in _INTEGERS}
    cables = pair(r, index, columns, problems)
    b = FabricBuilder(stem(path), mlids=mlids)
    _check_size(path, columns["node_type"], cables.nports, b.lft_cap)
    n = len(r.key)
    node_type, nports = columns["node_type"], _at_least_one_port(r, cables.nports, problems)
    supported, lanes = _supported(r, columns, cables)
    node_guid, sys_guid = _guids(r, columns, problems)
    b.nodes(
        n,
        node_type,
        nports,
        node_guid=node_guid,
        sys_guid=sys_guid,
        vendor_id=columns["vendor_id"],
        device_id=columns["device_id"],
        revision=columns["revision"],
        speed=supported,
        lanes=lanes,
        pkey_cap=columns["pkey_cap"],
        external_pkey_cap=columns["external_pkey_cap"],
        guid_cap=columns["guid_cap"],
    )
    b.links(cables.node_a, cables.portnum_a, cables.node_b, cables.portnum_b, listed=cables.listed)
    _port_guids(b, r, columns, cables)
    f = b.build()
    f.node_stated[[*r.uncounted, *r.only_a_peer]] |= np.uint8(Stated.LINKED_PORTS_ALONE)
    _descriptions(f, r, problems)
    _speeds(f, r, columns, cables, supported, lanes)
    f.port_label = {int(f.port(i, p)): text for (i, p), text in r.label.items() if p <= nports[i]}
    seen = _as_found(f, r, columns, cables, problems)
    f.source = Source(format, shown_name(path), frozenset(seen | records))
    problems.sort(key=lambda p: p.line)
    return ReadResult(f, problems, format, _counts(f, cables))


def _at_least_one_port(r: Records, nports: np.ndarray, problems: Problems) -> np.ndarray:
    """Give one port to each node without ports, because no device has NumPorts 0 (IBA 14.2.5.3)."""
    for i in np.flatnonzero(nports < 1).tolist():
        problems.add(
            r.node_line[i], f"{shown(r.desc[i] or r.key[i])} has no port; a device has at least one, so 1 is assumed"
        )
    return np.maximum(nports, 1)


def _check_size(path: Path, node_type: np.ndarray, nports: np.ndarray, lft_cap: int) -> None:
    """Reject a fabric that is too large before its memory is allocated. A small file can name many
    large switches."""
    switches = node_type == NodeType.SWITCH
    need = int(switches.sum()) * lft_cap + int(((nports[switches] + 1) ** 2).sum()) * 8 + int(nports.sum()) * 1024
    if need > SIZE_LIMIT:
        raise LimitError(
            f"{shown_name(path)}: {counted(int(switches.sum()), 'switch')} and {counted(int(nports.sum()), 'port')} "
            f"{plural(int(nports.sum()), 'needs', 'need')} {need >> 30} GiB of "
            f"tables; the limit is {SIZE_LIMIT >> 30} GiB"
        )


def named(result: ReadResult, node_name_map: Any) -> ReadResult:
    """Return ``result`` with the descriptions of a node-name-map (a path, or ``{node_guid:
    name}``). With None, it is unchanged."""
    if node_name_map is not None:
        result.problems += node_name_map_module.apply(result.fabric, node_name_map)
    return result


_INTEGERS = (
    "pkey_cap",
    "external_pkey_cap",
    "guid_cap",
    "node_type",
    "nports",
    "vendor_id",
    "device_id",
    "revision",
    "lid0",
    "lmc0",
    "enhanced_port0",
    "port_node",
    "portnum",
    "peer_portnum",
    "port_line",
    "speed",
    "lanes",
    "lid",
    "lmc",
    "peer_lid",
    "state",
)


def _supported(r: Records, c: dict[str, np.ndarray], cables: Cables) -> tuple[np.ndarray, np.ndarray]:
    """Return the speed code and the lanes that each node supports: those of its DeviceID's
    generation, or of its fastest link. If neither is known, they are SDR 4x, as in ibsim for a
    netlist without speeds.
    """
    code = np.zeros(len(r.key), np.int64)
    for device in np.unique(c["device_id"]):
        part = DEVICES.get(int(device))
        if part:
            kind = NodeType.SWITCH if part.kind == "switch" else NodeType.CA
            code[(c["device_id"] == device) & (c["node_type"] == kind)] = SPEED_BY_NAME[part.generation].code
    lanes = np.full(len(r.key), 4, np.int64)
    used = cables.record_of_a
    np.maximum.at(code, c["port_node"][used], c["speed"][used])
    np.maximum.at(lanes, c["port_node"][used], c["lanes"][used])
    return np.where(code > 0, code, SPEED_BY_NAME["SDR"].code), lanes


def _guids(r: Records, c: dict[str, np.ndarray], problems: Problems) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns NodeGUID and SystemImageGUID; 0 = the file states no GUID. Two records
    with the same NodeGUID are a problem, and both are kept. A NodeGUID of 0 is a problem, and is
    ignored."""
    node = np.array([max(g, 0) for g in r.node_guid], np.uint64)
    sys = np.array([max(g, 0) for g in r.sys_guid], np.uint64)
    for i in [i for i, g in enumerate(r.node_guid) if g == 0]:
        problems.add(
            r.node_line[i],
            f"NodeGUID 0 of {shown(r.desc[i] or r.key[i])} is not a valid GUID; using a generated one",
        )
    order = np.argsort(node, kind="stable")
    for k in np.flatnonzero(node[order][1:] == node[order][:-1]):
        first, second = int(order[k]), int(order[k + 1])
        if node[first] and r.key[first] != r.key[second]:
            problems.add(
                r.node_line[second],
                f"NodeGUID {int(node[second]):#018x} is also that of line {r.node_line[first]}; both nodes are kept",
            )
    return node, sys


def _port_guids(b: FabricBuilder, r: Records, c: dict[str, np.ndarray], cables: Cables) -> None:
    """Set the PortGUIDs of CAs to those in the ports' records, or otherwise to those in their
    peers' records."""
    is_switch = c["node_type"] == NodeType.SWITCH
    stated = np.array([max(g, 0) for g in r.port_guid], np.uint64)
    by_peer = np.array([max(g, 0) for g in r.peer_guid], np.uint64)
    target = cables.peer_node
    use = cables.usable & (target >= 0) & (by_peer > 0)
    use[use] = ~is_switch[target[use]]
    b.port_guids(target[use], c["peer_portnum"][use], by_peer[use])
    use = cables.usable & (stated > 0)
    use[use] = ~is_switch[c["port_node"][use]]
    b.port_guids(c["port_node"][use], c["portnum"][use], stated[use])


def _descriptions(f: Fabric, r: Records, problems: Problems) -> None:
    for i, desc in enumerate(r.desc):
        desc = desc.split(b"\0")[0]
        if len(desc) > 64:
            problems.add(r.node_line[i], f"description of {len(desc)} bytes; NodeDescription holds 64: {shown(desc)}")
        raw = desc[:64]
        f.node_desc[i, : len(raw)] = np.frombuffer(raw, np.uint8)


def _speeds(
    f: Fabric, r: Records, c: dict[str, np.ndarray], cables: Cables, supported: np.ndarray, lanes: np.ndarray
) -> None:
    """Write the speed and width in each port's record into the PortInfo images. The two ends of a
    cable may differ."""
    sup, sup_lanes = supported[f.port_node], lanes[f.port_node]
    for (node, portnum), (speed, wide) in r.best.items():
        if node >= 0 and portnum <= f.node_nports[node]:
            port = f.port(node, portnum)
            sup[port], sup_lanes[port] = speed or sup[port], wide or sup_lanes[port]
    active, active_lanes = np.zeros(f.sizes.ports, np.int64), np.zeros(f.sizes.ports, np.int64)
    up = f.linked | (f.port_cable >= 0)
    peer = np.where(f.linked, f.port_peer, np.arange(f.sizes.ports))
    active[up] = np.minimum(sup, sup[peer])[up]
    active_lanes[up] = np.minimum(sup_lanes, sup_lanes[peer])[up]
    # The peer's record is written first, so the port's own record overrides it.
    for rows, usable in ((f.port_peer, cables.usable), (None, cables.usable)):
        port = f.node_base[c["port_node"][usable]] + c["portnum"][usable]
        if rows is not None:
            port = rows[port]
        for column, name in ((active, "speed"), (active_lanes, "lanes")):
            good = (port >= 0) & (c[name][usable] > 0)
            column[port[good]] = c[name][usable][good]
    info, mlnx = port_info_image(f, np.maximum(sup, active), np.maximum(sup_lanes, active_lanes), active, active_lanes)
    f.port_info[:], f.port_mlnx_speed[:] = info, mlnx
    advertise_fec(f, ADVERTISED_FROM)
    power_on(f)


def _as_found(f: Fabric, r: Records, c: dict[str, np.ndarray], cables: Cables, problems: Problems) -> set[str]:
    """Write LIDs, LMCs, port states and types of port 0 into the images. Return the kinds of data
    that the source records."""
    P, seen = PortInfo, set()
    lid, lmc = np.full(f.sizes.ports, UNKNOWN, np.int64), np.full(f.sizes.ports, UNKNOWN, np.int64)
    switches = np.flatnonzero(f.is_switch)
    lid[f.node_base[switches]], lmc[f.node_base[switches]] = c["lid0"][switches], c["lmc0"][switches]
    rows = cables.usable & ~f.is_switch[c["port_node"]]
    port = f.node_base[c["port_node"][rows]] + c["portnum"][rows]
    lid[port], lmc[port] = c["lid"][rows], c["lmc"][rows]
    _peer_lids(f, lid, c, cables, problems)
    if (lid > 0).any():
        seen.add("lids")
    if (lmc >= 0).any():
        seen.add("lmcs")
    if (c["speed"] > 0).any():
        seen.add("speeds")
    if r.best:
        seen.add("capabilities")
    P.lid.set(f.port_info, np.maximum(lid, 0))
    P.lmc.set(f.port_info, np.maximum(lmc, 0))
    rows = cables.usable & (c["state"] > 0)
    if rows.any():
        seen.add("states")
        port = f.node_base[c["port_node"][rows]] + c["portnum"][rows]
        P.port_state.set(f.port_info, c["state"][rows], where=port)
        P.port_phys_state.set(
            f.port_info, np.where(c["state"][rows] > 1, PhysState.LINK_UP, PhysState.POLLING), where=port
        )
    enhanced = c["enhanced_port0"][f.switch_node]
    SwitchInfo.enhanced_port0.set(f.switch_info, np.maximum(enhanced, 0))
    return seen


def _peer_lids(f: Fabric, lid: np.ndarray, c: dict[str, np.ndarray], cables: Cables, problems: Problems) -> None:
    """Use the LIDs that records state for their peers: fill in missing LIDs, and report LIDs that
    contradict each other."""
    stated = cables.usable & (cables.peer_node >= 0) & (c["peer_lid"] >= 0)
    rows = np.flatnonzero(stated)
    node = cables.peer_node[rows]
    port = f.node_base[node] + np.where(f.is_switch[node], 0, c["peer_portnum"][rows])
    value = c["peer_lid"][rows]
    empty = lid[port] == UNKNOWN
    lid[port[empty][::-1]] = value[empty][::-1]  # if several records state a LID, the first wins
    for i in np.flatnonzero(lid[port] != value):
        problems.add(
            int(c["port_line"][rows[i]]),
            f"states LID {int(value[i])} for its peer, but {shown(f.node_name(int(node[i])))} has LID "
            f"{int(lid[port[i]])}",
        )


def _counts(f: Fabric, cables: Cables) -> dict[str, int | None]:
    ca = f.node_type == NodeType.CA
    sharp = ca & is_aggregation_node(f.node_desc)
    same = (cables.node_a == cables.node_b) & (cables.node_b >= 0)
    return {
        "switches": int(f.is_switch.sum()),
        "cas": int(ca.sum()),
        "sharp_nodes": int(sharp.sum()),
        "links": len(cables.node_a),
        "listed_both_ends": int((cables.listed == 2).sum()),
        "self_loops": int(same.sum()),
        "dangling": int(cables.dangling),
        "system_links": None,
    }
