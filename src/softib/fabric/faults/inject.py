"""Plant faults in a fabric at rest. Ports are given by name, for example ``"leaf-3[40]"``. The
faults are kinds that occur in real machine rooms.

Each function changes every array that the fault affects, returns a :class:`Planted`, and appends it
to ``fabric.source.generator["faults"]``. This list is the ground truth in tests of the checks.
Wrong names raise :class:`UnknownName` or :class:`InputError` with a one-line message. Fabric files
use the fault kinds of :mod:`softib.fabric.faults.kinds`.

Faults of LIDs and states need recorded LIDs and states. If the source has no LIDs, they are first
set as a subnet manager would set them: LIDs 1, 2, … in port order, and every link Active.
"""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.fabric import plugging
from softib.fabric.faults.targets import Planted, Target, cable_at, cable_ends, names_of, node_at, note, port_at
from softib.fabric.model import Fabric
from softib.fabric.plugging import add_cable, delete_cables, plug, set_active, unplug
from softib.iba.constants import LID_UCAST_MAX, NodeType, PhysState, PortState
from softib.iba.rates import SPEED_BY_CODE, WIDTH_BITS, speed_named
from softib.iba.smp import PortInfo

__all__ = [
    "Planted",
    "cable_at",
    "cross_rails",
    "dangle",
    "dead_switch",
    "duplicate_description",
    "duplicate_guid",
    "duplicate_lid",
    "inactive_link",
    "move_cable",
    "node_at",
    "one_sided",
    "port_at",
    "remove_cable",
    "self_loop",
    "set_ber",
    "set_length",
    "slow_link",
    "swap_cables",
    "unlink_hca",
    "zero_lid",
]


# -- cabling --


def swap_cables(fabric: Fabric, a: Target, b: Target) -> Planted:
    """Exchange the plugs in ports ``a`` and ``b``."""
    return _swap(fabric, port_at(fabric, a), port_at(fabric, b), "swap-cables")


def cross_rails(fabric: Fabric, node: str, rails: tuple[int, int]) -> Planted:
    """Exchange the cables of two adapters of a host. For ``rails`` (a, b), these are the adapters
    ``node mlx5_a`` and ``node mlx5_b``."""
    if len(rails) != 2 or rails[0] == rails[1]:
        raise InputError(f"rails: {list(rails)} are not two different rails; use for example [0, 1]")
    a, b = (port_at(fabric, f"{node} mlx5_{r}[1]") for r in rails)
    return _swap(fabric, a, b, "crossed-rails")


def _swap(fabric: Fabric, a: int, b: int, kind: str) -> Planted:
    names = names_of(fabric, [a, b])
    first, second = (int(fabric.port_cable[p]) for p in (a, b))
    for port, cable in ((a, first), (b, second)):
        if cable < 0:
            raise InputError(f"{fabric.port_name(port)} has no cable; swapping needs two cables that are plugged in")
    if first == second:
        raise InputError(f"{names[0]} and {names[1]} are the ends of one cable; name ports of two cables to swap")
    peer_a, peer_b = int(fabric.port_peer[a]), int(fabric.port_peer[b])
    if peer_a == a or peer_b == b:
        raise InputError(
            f"{names[0] if peer_a == a else names[1]} holds a loopback plug, which cannot be swapped; name a port "
            f"with a cable"
        )
    side_a, side_b = (int(fabric.cable_port[c, 1] == p) for c, p in ((first, a), (second, b)))
    unplug(fabric, first)
    unplug(fabric, second)
    for cable, side, port, peer in ((first, side_a, b, peer_a), (second, side_b, a, peer_b)):
        plug(fabric, cable, *((peer, port) if side else (port, peer)))
    return note(
        fabric,
        kind,
        names + names_of(fabric, [p for p in (peer_a, peer_b) if p >= 0]),
        f"the plugs in {names[0]} and {names[1]} are exchanged",
    )


def move_cable(fabric: Fabric, port: Target, to: Target) -> Planted:
    """Move the plug of ``port`` to the free port ``to``."""
    a, b, cable = port_at(fabric, port), port_at(fabric, to), cable_at(fabric, port)
    if fabric.port_cable[b] >= 0:
        raise InputError(f"{to} already holds a cable; move to a free port, or use swap-cables")
    peer, side = int(fabric.port_peer[a]), int(fabric.cable_port[cable, 1] == a)
    names = names_of(fabric, [a, b])
    if peer == a:
        raise InputError(f"{names[0]} holds a loopback plug, which cannot be moved; name a port with a cable")
    unplug(fabric, cable)
    plug(fabric, cable, *((peer, b) if side else (b, peer)))
    return note(fabric, "move-cable", names, f"the plug of {names[0]} was moved to {names[1]}")


def remove_cable(fabric: Fabric, cable: Target) -> Planted:
    """Remove the cable that has an end in port ``cable``."""
    row = cable_at(fabric, cable)
    names = names_of(fabric, cable_ends(fabric, row))
    delete_cables(fabric, row)
    return note(fabric, "remove-cable", names, f"the cable {' – '.join(names)} is missing")


def unlink_hca(fabric: Fabric, port: Target) -> Planted:
    """Unplug the cable of an adapter's port."""
    row = port_at(fabric, port)
    if fabric.node_type[fabric.port_node[row]] == NodeType.SWITCH:
        raise InputError(f"{port} is a switch port; use an adapter's port with unlink-hca, or use remove-cable")
    cable_at(fabric, port)
    delete_cables(fabric, int(fabric.port_cable[row]))
    return note(fabric, "unlink-hca", names_of(fabric, [row]), f"{fabric.port_name(row)} has no cable")


def dead_switch(fabric: Fabric, switch: Target) -> Planted:
    """Turn off a switch: all its links go down."""
    node = node_at(fabric, switch)
    if fabric.node_type[node] != NodeType.SWITCH:
        raise InputError(f"{fabric.node_name(node)} is not a switch")
    held = fabric.port_cable[list(fabric.ports_of(node))]
    delete_cables(fabric, held[held >= 0])
    return note(fabric, "dead-switch", [fabric.node_name(node)], f"{fabric.node_name(node)} is dead: no link is up")


def self_loop(fabric: Fabric, a: Target, b: Target | None = None) -> Planted:
    """Plug a cable between two free ports of one switch, or a loopback plug if one port is given."""
    ports = [port_at(fabric, p) for p in (a, b or a)]
    if fabric.port_node[ports[0]] != fabric.port_node[ports[1]]:
        raise InputError(f"{a} and {b} are on different nodes; a self-loop has both ends on one node")
    for port in ports:
        if fabric.port_cable[port] >= 0 or fabric.port_num[port] == 0:
            raise InputError(f"{fabric.port_name(port)} already holds a cable; a self-loop needs a free port")
    add_cable(fabric, *ports)
    names = names_of(fabric, list(dict.fromkeys(ports)))
    return note(fabric, "self-loop", names, f"a cable loops back at {' and '.join(names)}")


# -- links --


def slow_link(fabric: Fabric, cable: Target, speed: str | None = None, lanes: int | None = None) -> Planted:
    """Make a link run slower or narrower than both ends support. Set the active
    speed of both ends to ``speed`` (a generation), or their active width to ``lanes``."""
    row = cable_at(fabric, cable)
    ends = cable_ends(fabric, row)
    if len(ends) < 2 and fabric.cable_port[row].min() < 0:
        raise InputError(f"the peer of {cable} is unknown; a slow link needs two known ends")
    best = int(plugging.supported_speed_codes(fabric, np.array(ends)).min())
    widths = int(np.bitwise_and.reduce(plugging.supported_lanes(fabric, np.array(ends))))
    code = speed_named(speed).code if speed is not None else best
    if lanes is not None and not (isinstance(lanes, int) and WIDTH_BITS.get(lanes, 0) & widths):
        supported = [n for n, bit in sorted(WIDTH_BITS.items()) if bit & widths]
        raise InputError(f"lanes: {lanes}: the ends of {cable} support {' and '.join(map(str, supported))}")
    most = max(n for n, bit in WIDTH_BITS.items() if bit & widths)
    if code > best or (code == best and (lanes or most) == most):
        raise InputError(
            f"this would not slow the link: {cable} supports {SPEED_BY_CODE[best].name} with {most} lanes; use a lower "
            f"speed or fewer lanes"
        )
    set_active(fabric, ends, code, lanes or most)
    names = names_of(fabric, ends)
    return note(fabric, "slow-link", names, f"{' – '.join(names)} runs at {lanes or most}x{SPEED_BY_CODE[code].name}")


def set_ber(fabric: Fabric, cable: Target, ber: float) -> Planted:
    """Give a cable the raw bit error ratio ``ber`` (0 = perfect)."""
    row = cable_at(fabric, cable)
    if not 0 <= ber < 1:
        raise InputError(f"ber: {ber} is not a bit error ratio; use a number from 0 to below 1, for example 1e-9")
    fabric.cable_ber[row] = ber
    fabric.source.records |= {"ber"}
    names = names_of(fabric, cable_ends(fabric, row))
    return note(fabric, "ber", names, f"{' – '.join(names)} has bit error ratio {ber:g}")


def set_length(fabric: Fabric, cable: Target, length_m: float) -> Planted:
    """Set the length of a cable in metres, usually to one that differs from those of similar
    cables."""
    row = cable_at(fabric, cable)
    if not 0 < length_m <= 40_000:
        raise InputError(f"length_m: {length_m} is not a cable length; use metres, up to 40000")
    fabric.cable_length_m[row] = length_m
    fabric.source.records |= {"lengths"}
    names = names_of(fabric, cable_ends(fabric, row))
    return note(fabric, "length", names, f"{' – '.join(names)} is {length_m:g} m long")


def inactive_link(fabric: Fabric, cable: Target, state: str = "INIT") -> Planted:
    """Keep a link ``DOWN``, ``INIT`` or ``ARMED`` at both ends although its cable is plugged in."""
    row = cable_at(fabric, cable)
    if str(state).upper() not in ("DOWN", "INIT", "ARMED"):
        raise InputError(f"state: {state!r} is not one of DOWN, INIT, ARMED")
    value = PortState[str(state).upper()]
    if "states" not in fabric.source.records:
        PortInfo.port_state.set(fabric.port_info, PortState.ACTIVE, np.flatnonzero(fabric.linked))
        fabric.source.records |= {"states"}
    ends = cable_ends(fabric, row)
    PortInfo.port_state.set(fabric.port_info, value, ends)
    PortInfo.port_phys_state.set(
        fabric.port_info, PhysState.POLLING if value == PortState.DOWN else PhysState.LINK_UP, ends
    )
    names = names_of(fabric, ends)
    return note(fabric, "inactive-link", names, f"{' – '.join(names)} stays {value.name}")


# -- identity and records --


def duplicate_guid(fabric: Fabric, node: Target, of: Target) -> Planted:
    """Give ``node`` the NodeGUID and PortGUIDs of ``of``, as if its EEPROM were a clone."""
    a, b = _two_nodes(fabric, node, of)
    rows = np.array(fabric.ports_of(a, port0=True))
    offset = fabric.port_guid[rows] - fabric.node_guid[a]
    fabric.node_guid[a] = fabric.node_guid[b]
    fabric.port_guid[rows] = fabric.node_guid[b] + offset
    owners = rows[(fabric.port_num[rows] == 0) | (fabric.node_type[a] != NodeType.SWITCH)]
    fabric.guids[fabric.guid_base[owners]] = fabric.port_guid[owners]
    names = [fabric.node_name(a), fabric.node_name(b)]
    return note(
        fabric, "duplicate-guid", names, f"{names[0]} has the GUID {int(fabric.node_guid[b]):#018x} of {names[1]}"
    )


def duplicate_description(fabric: Fabric, node: Target, of: Target) -> Planted:
    """Give ``node`` the NodeDescription of ``of``."""
    a, b = _two_nodes(fabric, node, of)
    names = [fabric.node_name(a), fabric.node_name(b)]
    fabric.node_desc[a] = fabric.node_desc[b]
    return note(fabric, "duplicate-description", names, f"{names[0]} has the description of {names[1]}")


def duplicate_lid(fabric: Fabric, port: Target, of: Target) -> Planted:
    """Give ``port`` the base LID of ``of`` (both are end ports: an adapter's port, or port 0 of a
    switch)."""
    a, b = (_end_port(fabric, p) for p in (port, of))
    if a == b:
        raise InputError(f"{port} and {of} are the same port; a duplicate needs two ports")
    _give_lids(fabric)
    lid = int(fabric.lid[b])
    PortInfo.lid.set(fabric.port_info, lid, [a])
    names = names_of(fabric, [a, b])
    return note(fabric, "duplicate-lid", names, f"{names[0]} and {names[1]} both have LID {lid}")


def zero_lid(fabric: Fabric, port: Target) -> Planted:
    """Remove the LID of an end port."""
    row = _end_port(fabric, port)
    _give_lids(fabric)
    PortInfo.lid.set(fabric.port_info, 0, [row])
    return note(fabric, "lid-0", names_of(fabric, [row]), f"{fabric.port_name(row)} has LID 0")


def one_sided(fabric: Fabric, cable: Target) -> Planted:
    """Remove one of a cable's two port records: only the record of port ``cable`` still lists the
    cable."""
    port, row = port_at(fabric, cable), cable_at(fabric, cable)
    peer = int(fabric.port_peer[port])
    fabric.cable_port[row], fabric.cable_listed[row] = (port, peer), 1
    names = names_of(fabric, [p for p in (port, peer) if p >= 0])
    return note(fabric, "one-sided", names, f"{' – '.join(names)} is listed only at {names[0]}")


def dangle(fabric: Fabric, port: Target) -> Planted:
    """Make the record of ``port`` name a peer that is missing from the source."""
    port_row, row = port_at(fabric, port), cable_at(fabric, port)
    peer = int(fabric.port_peer[port_row])
    if peer < 0:
        raise InputError(f"the peer of {fabric.port_name(port_row)} is already unknown; name another port")
    unplug(fabric, row)
    plug(fabric, row, port_row, -1)
    fabric.cable_listed[row] = 1
    name, was = names_of(fabric, [port_row, peer])
    return note(fabric, "dangling", [name], f"the peer of {name} is unknown (it was {was})")


def _two_nodes(fabric: Fabric, node: Target, of: Target) -> tuple[int, int]:
    a, b = node_at(fabric, node), node_at(fabric, of)
    if a == b:
        raise InputError(f"{node!r} and {of!r} are the same node; a duplicate needs two nodes")
    return a, b


def _end_port(fabric: Fabric, place: Target) -> int:
    port = port_at(fabric, place)
    if fabric.node_type[fabric.port_node[port]] == NodeType.SWITCH and fabric.port_num[port] != 0:
        raise InputError(
            f"{fabric.port_name(port)} has no LID; a switch's LID belongs to port 0, so use "
            f"{fabric.node_name(int(fabric.port_node[port]))}[0]"
        )
    return port


def _give_lids(fabric: Fabric) -> None:
    """Give LIDs 1, 2, … to all end ports if the source records none."""
    if "lids" in fabric.source.records:
        return
    ends = fabric.end_ports()
    if len(ends) > LID_UCAST_MAX:
        raise InputError(f"{len(ends)} end ports are too many; a subnet has only {LID_UCAST_MAX} unicast LIDs")
    PortInfo.lid.set(fabric.port_info, np.arange(1, len(ends) + 1), ends)
    fabric.source.records |= {"lids"}
