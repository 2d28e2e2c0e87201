"""Compare two fabrics and list the changes.

Nodes of both fabrics are matched first (:mod:`softib.fabric.same_nodes`). Then four things are
compared: descriptions, types and port counts of nodes; cables, as pairs of ports; speed and width
of the cables that both fabrics have; and LIDs of ports, if both sources record LIDs.

A cable is *moved* if one end stayed in its port and the other did not. A cable whose two ends both
moved counts as one removed and one added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from softib.fabric.identity import Stated
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.fabric.same_nodes import matched_nodes, plain_name, port_guids, ports_in_b, real_guids
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo
from softib.plural import counted
from softib.result import Result

__all__ = ["KINDS", "Change", "diff", "lines_of"]

KINDS = (
    "node-added",
    "node-removed",
    "node-renamed",
    "node-guid",
    "node-type",
    "node-ports",
    "cable-added",
    "cable-removed",
    "cable-moved",
    "cable-speed",
    "cable-width",
    "lid",
)
"""Every kind of change, in the order of :func:`diff`."""


@dataclass(frozen=True)
class Change(Result):
    """A difference between two fabrics."""

    kind: str
    """One of :data:`KINDS`."""
    where: tuple[str, ...]
    """The ports (for example ``leaf-3[40]``) or the nodes that changed."""
    before: str
    after: str
    message: str
    """Description of the change, as the text output prints it."""

    def __str__(self) -> str:
        return self.message


def diff(a: Fabric, b: Fabric) -> list[Change]:
    """Return the changes from ``a`` to ``b``, ordered by kind. Changes of one kind are ordered by
    row of ``a`` (additions by row of ``b``)."""
    to_b = matched_nodes(a, b)
    changes = [*_nodes(a, b, to_b), *_cables(a, b, to_b), *_lids(a, b, to_b)]
    return sorted(changes, key=lambda c: KINDS.index(c.kind))


def lines_of(changes: Sequence[Change]) -> list[str]:
    """Return one line per change. Cables of a removed or added node have no lines; the line of the
    node states their number."""
    with_node = {"cable-removed": "node-removed", "cable-added": "node-added"}
    cables: dict[tuple[str, str], int] = {(c.kind, c.where[0]): 0 for c in changes if c.kind in with_node.values()}
    owner = [
        next((key for end in c.where if (key := (with_node.get(c.kind, ""), end.rpartition("[")[0])) in cables), None)
        for c in changes
    ]
    for node in owner:
        if node is not None:
            cables[node] += 1
    out: list[str] = []
    for change, node in zip(changes, owner, strict=True):
        if node is None:
            n = cables.get((change.kind, change.where[0]), 0)
            out.append(f"{change.message}, with {counted(n, 'cable')}" if n else change.message)
    return out


def _kind(f: Fabric, node: int) -> str:
    return {NodeType.CA: "CA", NodeType.SWITCH: "switch", NodeType.ROUTER: "router"}.get(int(f.node_type[node]), "node")  # type: ignore[call-overload]


def _nodes(a: Fabric, b: Fabric, to_b: np.ndarray) -> Iterator[Change]:
    for node in np.flatnonzero(to_b < 0).tolist():
        name = a.node_name(node)
        yield Change("node-removed", (name,), name, "", f"{_kind(a, node)} {name} was removed")
    matched = np.zeros(b.sizes.nodes, bool)
    matched[to_b[to_b >= 0]] = True
    for node in np.flatnonzero(~matched).tolist():
        name = b.node_name(node)
        yield Change("node-added", (name,), "", name, f"{_kind(b, node)} {name} is new")
    same = np.flatnonzero(to_b >= 0)
    other = to_b[same]
    by_guid = (a.node_guid[same] == b.node_guid[other]).any()
    generated = (real_guids(a)[same] == 0) | (real_guids(b)[other] == 0)
    for i in np.flatnonzero((a.node_desc[same] != b.node_desc[other]).any(axis=1)).tolist():
        old, new = a.node_name(int(same[i])), b.node_name(int(other[i]))
        if plain_name(old) != plain_name(new):
            how = "by its cables" if generated[i] else f"GUID {int(a.node_guid[same[i]]):#018x}"
            yield Change("node-renamed", (new,), old, new, f"{old} is now called {new} ({how})")
    by_port = (port_guids(a)[same] == b.node_guid[other]) | (a.node_guid[same] == port_guids(b)[other])
    for i in np.flatnonzero((a.node_guid[same] != b.node_guid[other]) & by_guid & ~generated & ~by_port).tolist():
        old, new = (f"{int(g):#018x}" for g in (a.node_guid[same[i]], b.node_guid[other[i]]))
        name, cause = b.node_name(int(other[i])), _cause_of_guid(a, b, int(same[i]), int(other[i]))
        yield Change("node-guid", (name,), old, new, f"{name} has GUID {new}, previously {old}: {cause}")
    for kind, column, property_ in (
        ("node-type", "node_type", "kind"),
        ("node-ports", "node_nports", "number of ports"),
    ):
        x, y = getattr(a, column)[same], getattr(b, column)[other]
        comparable = (a.node_stated[same] | b.node_stated[other]) & Stated.LINKED_PORTS_ALONE == 0
        for i in np.flatnonzero((x != y) & (comparable | (kind == "node-type"))).tolist():
            name = b.node_name(int(other[i]))
            old, new = str(int(x[i])), str(int(y[i]))
            if column == "node_type":
                old, new = _kind(a, int(same[i])), _kind(b, int(other[i]))
            yield Change(kind, (name,), old, new, f"{name}: {property_} was {old}, is {new}")


def _cause_of_guid(a: Fabric, b: Fabric, node: int, other: int) -> str:
    """Return the cause, as text, if a node has another GUID in the other fabric."""
    guid = b.node_guid[other]
    twins_now, twins_before = _others_with(b, guid, other), _others_with(a, a.node_guid[node], node)
    elsewhere = np.flatnonzero(a.node_guid == guid)
    if twins_now:
        return f"a duplicate of {b.node_name(twins_now[0])}"
    if twins_before:
        return f"no longer a duplicate of {a.node_name(twins_before[0])}"
    if len(elsewhere):
        return f"the device of {a.node_name(int(elsewhere[0]))} is here now"
    return "the device was replaced"


def _others_with(f: Fabric, guid: np.uint64, node: int) -> list[int]:
    return [n for n in np.flatnonzero(f.node_guid == guid).tolist() if n != node]


def _cables(a: Fabric, b: Fabric, to_b: np.ndarray) -> Iterator[Change]:
    port_b = ports_in_b(a, b, to_b)
    back = np.full(b.sizes.ports, -1, np.int64)
    here = np.flatnonzero(port_b >= 0)
    back[port_b[here]] = here
    kept_b = np.zeros(b.sizes.cables, bool)
    moved_b = np.zeros(b.sizes.cables, bool)
    removed: list[int] = []
    same: list[tuple[int, int]] = []
    for cable, (p, q) in enumerate(a.cable_port.tolist()):
        at, other = (int(port_b[x]) if x >= 0 else -1 for x in (p, q))
        cable_b = int(b.port_cable[at]) if at >= 0 else int(b.port_cable[other]) if other >= 0 else -1
        if cable_b >= 0 and set(b.cable_port[cable_b].tolist()) == {at, other}:
            kept_b[cable_b] = True
            same.append((cable, cable_b))
        else:
            removed.append(cable)
    for cable in removed:
        yield _lost(a, b, cable, port_b, kept_b, moved_b)
    for cable in np.flatnonzero(~kept_b & ~moved_b).tolist():
        ends = _ends(b, cable)
        yield Change("cable-added", ends, "", " - ".join(ends), f"new cable {' - '.join(ends)}")
    yield from _links(a, b, same)


def _lost(a: Fabric, b: Fabric, cable: int, port_b: np.ndarray, kept_b: np.ndarray, moved_b: np.ndarray) -> Change:
    """Return the change for a cable of ``a`` that is absent from ``b``. The cable is *moved* if one
    of its ports has another cable in ``b`` and no other change uses that cable."""
    ends = _ends(a, cable)
    was = " - ".join(ends)
    for p in a.cable_port[cable].tolist():
        at = int(port_b[p]) if p >= 0 else -1
        new = int(b.port_cable[at]) if at >= 0 else -1
        if new >= 0 and not kept_b[new] and not moved_b[new]:
            moved_b[new] = True
            stays = b.port_name(at)
            old_peer = next((e for e in ends if e != a.port_name(p)), ends[-1])
            new_peer = next((e for e in _ends(b, new) if e != stays), stays)
            other = " of another node" if new_peer == old_peer else ""
            return Change(
                "cable-moved",
                (stays, old_peer, new_peer),
                was,
                " - ".join(_ends(b, new)),
                f"{stays} leads to {new_peer}, previously to {old_peer}{other}",
            )
    return Change("cable-removed", ends, was, "", f"cable {was} was removed")


def _ends(f: Fabric, cable: int) -> tuple[str, ...]:
    return tuple(f.port_name(p) if p >= 0 else "an unknown port" for p in f.cable_port[cable].tolist())


def _links(a: Fabric, b: Fabric, same: list[tuple[int, int]]) -> Iterator[Change]:
    if not same or not (_records(a, "speeds") and _records(b, "speeds")):
        return
    pairs = np.array(same)
    complete = ((a.cable_port[pairs[:, 0]] >= 0).all(axis=1)) & ((b.cable_port[pairs[:, 1]] >= 0).all(axis=1))
    pairs = pairs[complete]
    ports = [f.cable_port[pairs[:, i], 0] for i, f in enumerate((a, b))]
    codes = [active_speed_codes(f.port_info, f.port_mlnx_speed)[p] for f, p in zip((a, b), ports, strict=True)]
    width = [PortInfo.link_width_active.get(f.port_info)[p] for f, p in zip((a, b), ports, strict=True)]
    for i in np.flatnonzero(codes[0] != codes[1]).tolist():
        old, new = (SPEED_BY_CODE[int(c[i])].name if c[i] else "unknown" for c in codes)
        yield _link_change("cable-speed", _ends(b, int(pairs[i, 1])), old, new)
    for i in np.flatnonzero(width[0] != width[1]).tolist():
        old, new = (f"{LANES_BY_BIT[int(w[i])]}x" if int(w[i]) in LANES_BY_BIT else "unknown" for w in width)
        yield _link_change("cable-width", _ends(b, int(pairs[i, 1])), old, new)


def _link_change(kind: str, ends: tuple[str, ...], old: str, new: str) -> Change:
    property_ = kind.split("-")[1]
    return Change(kind, ends, old, new, f"cable {' - '.join(ends)}: {property_} was {old}, is {new}")


def _records(f: Fabric, kind: str) -> bool:
    return f.source.format == "generated" or kind in f.source.records


def _lids(a: Fabric, b: Fabric, to_b: np.ndarray) -> Iterator[Change]:
    port_b = ports_in_b(a, b, to_b)
    ends = a.end_ports()
    ends = ends[port_b[ends] >= 0]
    old, new = a.lid[ends], b.lid[port_b[ends]] if b.sizes.ports else np.zeros(len(ends), np.uint16)
    if not old.any() or not new.any():
        return
    for i in np.flatnonzero(old != new).tolist():
        name = b.port_name(int(port_b[ends[i]]))
        yield Change(
            "lid", (name,), str(int(old[i])), str(int(new[i])), f"{name}: LID was {int(old[i])}, is {int(new[i])}"
        )
