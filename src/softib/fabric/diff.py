"""Changes between two fabrics.

Two nodes are the same if their NodeGUIDs are equal, otherwise if their descriptions are; the GUID
or description must be unique on both sides. A replaced switch is thus one device with a new GUID,
and two designs, or a plan and the built fabric, match by name. A renamed node without a real GUID
on one side (generated GUIDs are only numbers) is matched by its cables: most of them lead from the
same ports to the same ports of matching nodes. Then these are compared: descriptions, types and
port counts of nodes; cables, as pairs of ports; speed and width of cables in both fabrics; LIDs of
ports in both, if both sources record LIDs.

A cable is *moved* if one end stayed in its port and the other did not. A cable that moved at both
ends counts as one removed and one added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from softib.fabric.identity import GUID_BASE, Stated
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo
from softib.plural import counted
from softib.result import Result

__all__ = ["KINDS", "Change", "diff", "lines_of", "named_alike"]

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
    """One difference between two fabrics."""

    kind: str
    """One of :data:`KINDS`."""
    where: tuple[str, ...]
    """Ports (``leaf-3[40]``) or nodes."""
    before: str
    after: str
    message: str
    """The text line."""

    def __str__(self) -> str:
        return self.message


def diff(a: Fabric, b: Fabric) -> list[Change]:
    """Return the changes from ``a`` to ``b``, by kind, then in the order of ``a`` (additions: of
    ``b``)."""
    to_b = _matched_nodes(a, b)
    changes = [*_nodes(a, b, to_b), *_cables(a, b, to_b), *_lids(a, b, to_b)]
    return sorted(changes, key=lambda c: KINDS.index(c.kind))


def lines_of(changes: Sequence[Change]) -> list[str]:
    """Return one line per change. The cables of a removed or added node are counted in the node's
    line."""
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


def _matched_nodes(a: Fabric, b: Fabric) -> np.ndarray:
    """Return the same node of ``b`` for each node of ``a``, including renamed nodes (int32[nodes];
    -1 = removed)."""
    to_b = named_alike(a, b)
    return _by_place(a, b, to_b) if (to_b < 0).any() and a.sizes.cables and b.sizes.cables else to_b


def named_alike(a: Fabric, b: Fabric) -> np.ndarray:
    """Return the node of ``b`` with the same GUID or name for each node of ``a`` (int32[nodes]; -1
    = none). Cables are not compared: two designs share many."""
    names = [[_plain(n) for n in f.node_names()] for f in (a, b)]
    number = {name: i + 1 for i, name in enumerate(dict.fromkeys([*names[0], *names[1]]))}
    by_name = [np.array([number[n] for n in ns], np.uint64) for ns in names]
    # Name and generated GUID together: matches copies of one design even if names repeat.
    by_both = [
        (f.node_guid & np.uint64((1 << 40) - 1)) << np.uint64(24) | n for f, n in zip((a, b), by_name, strict=True)
    ]
    to_b = np.full(a.sizes.nodes, -1, np.int32)
    for keys in ((_real_guids(a), _real_guids(b)), (_port_guids(a), _port_guids(b)), by_both, by_name):
        match = _match(*keys)
        taken = np.zeros(b.sizes.nodes + 1, bool)
        taken[to_b[to_b >= 0]] = True
        to_b = np.where((to_b < 0) & (match >= 0) & ~taken[match], match, to_b)
    return to_b


def _by_place(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Add renamed nodes to ``to_b``, outwards from nodes that match. A renamed part without a
    matching neighbour starts from equal generated GUIDs."""
    nameless = (_real_guids(a) == 0, _real_guids(b) == 0)
    to_b = _outwards(a, b, to_b, nameless)
    left = [(to_b < 0) & nameless[0], nameless[1].copy()]
    left[1][to_b[to_b >= 0]] = False
    same = _match(*(np.where(mask, f.node_guid, np.uint64(0)) for mask, f in zip(left, (a, b), strict=True)))
    if not (same >= 0).any():
        return to_b
    assumed = np.where(same >= 0, same, to_b)
    sure = _supported(a, b, assumed)
    return _outwards(a, b, np.where((same >= 0) & ~sure, -1, assumed), nameless)


def _outwards(a: Fabric, b: Fabric, to_b: np.ndarray, nameless: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Match nodes by their cables to matching nodes until there is no further match."""
    while True:
        free = np.ones(b.sizes.nodes, bool)
        free[to_b[to_b >= 0]] = False
        port = np.flatnonzero((to_b < 0)[a.port_node] & (a.port_peer >= 0))
        peer_b = _ports_in_b(a, b, to_b)[a.port_peer[port]]
        port, peer_b = port[peer_b >= 0], peer_b[peer_b >= 0]
        node = a.port_node[port]
        place = b.port_peer[peer_b]
        there = (place >= 0) & (b.port_num[place] == a.port_num[port])
        other = b.port_node[np.maximum(place, 0)]
        there &= free[other] & (nameless[0][node] | nameless[1][other])
        there &= (a.node_type[node] == b.node_type[other]) & (a.node_nports[node] == b.node_nports[other])
        anchored = np.bincount(node, minlength=a.sizes.nodes)
        pairs, votes = np.unique(np.stack([node[there], other[there]]), axis=1, return_counts=True)
        pairs = pairs[:, 2 * votes > anchored[pairs[0]]]  # more than half, so at most one node of b per node of a
        once = np.bincount(pairs[1], minlength=b.sizes.nodes)[pairs[1]] == 1
        if not once.any():
            return to_b
        to_b = to_b.copy()
        to_b[pairs[0, once]] = pairs[1, once]


def _supported(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Return whether more than half of each node's cables connect the same ports in ``b`` (bool[a's
    nodes])."""
    port_b = _ports_in_b(a, b, to_b)
    port = np.flatnonzero(a.port_peer >= 0)
    same = (port_b[port] >= 0) & (b.port_peer[np.maximum(port_b[port], 0)] == port_b[a.port_peer[port]])
    cables, kept = (np.bincount(a.port_node[p], minlength=a.sizes.nodes) for p in (port, port[same]))
    return 2 * kept > cables


def _plain(name: str) -> str:
    """ibdm calls the chip of a one-chip system ``leaf-1/U1``; other sources say ``leaf-1``."""
    return name.strip().removesuffix("/U1")


def _real_guids(f: Fabric) -> np.ndarray:
    """Return the NodeGUIDs, 0 for generated ones: those only number the nodes, so their equality
    has no meaning."""
    generated = ((f.node_guid >> np.uint64(40)) == np.uint64(GUID_BASE >> 40)) | (f.node_stated & Stated.NODE_GUID == 0)
    return np.where(generated, np.uint64(0), f.node_guid)


def _port_guids(f: Fabric) -> np.ndarray:
    """Return GUIDs of the first linked ports of adapters, which iblinkinfo has instead of
    NodeGUIDs; 0 for other nodes."""
    out = np.zeros(f.sizes.nodes, np.uint64)
    ports = np.flatnonzero((f.port_peer >= 0) & ~f.is_switch[f.port_node])[::-1]
    out[f.port_node[ports]] = f.port_guid[ports]
    return np.where(_real_guids(f) == 0, np.uint64(0), out)


def _match(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Match rows of ``a`` to ``b`` by keys that occur exactly once on both sides (0 = no key)."""
    keys, back = np.unique(np.concatenate([a, b]), return_inverse=True)
    in_a, in_b = (np.bincount(k, minlength=len(keys)) for k in (back[: len(a)], back[len(a) :]))
    row = np.full(len(keys), -1, np.int32)
    row[back[len(a) :]] = np.arange(len(b), dtype=np.int32)
    usable = (in_a == 1) & (in_b == 1) & (keys != 0)
    return np.where(usable, row, -1)[back[: len(a)]].astype(np.int32) if len(a) else np.zeros(0, np.int32)


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
    generated = (_real_guids(a)[same] == 0) | (_real_guids(b)[other] == 0)
    for i in np.flatnonzero((a.node_desc[same] != b.node_desc[other]).any(axis=1)).tolist():
        old, new = a.node_name(int(same[i])), b.node_name(int(other[i]))
        if _plain(old) != _plain(new):
            how = "by its cables" if generated[i] else f"GUID {int(a.node_guid[same[i]]):#018x}"
            yield Change("node-renamed", (new,), old, new, f"{old} is now called {new} ({how})")
    by_port = (_port_guids(a)[same] == b.node_guid[other]) | (a.node_guid[same] == _port_guids(b)[other])
    for i in np.flatnonzero((a.node_guid[same] != b.node_guid[other]) & by_guid & ~generated & ~by_port).tolist():
        old, new = (f"{int(g):#018x}" for g in (a.node_guid[same[i]], b.node_guid[other[i]]))
        name = b.node_name(int(other[i]))
        yield Change(
            "node-guid", (name,), old, new, (f"{name} has GUID {new}, previously {old}: the device was replaced")
        )
    for kind, column, property_ in (
        ("node-type", "node_type", "kind"),
        ("node-ports", "node_nports", "number of ports"),
    ):
        x, y = getattr(a, column)[same], getattr(b, column)[other]
        known = (a.node_stated[same] | b.node_stated[other]) & Stated.LINKED_PORTS_ALONE == 0
        for i in np.flatnonzero((x != y) & (known | (kind == "node-type"))).tolist():
            name = b.node_name(int(other[i]))
            old, new = str(int(x[i])), str(int(y[i]))
            if column == "node_type":
                old, new = _kind(a, int(same[i])), _kind(b, int(other[i]))
            yield Change(kind, (name,), old, new, f"{name}: {property_} was {old}, is {new}")


def _ports_in_b(a: Fabric, b: Fabric, to_b: np.ndarray) -> np.ndarray:
    """Return the same port of ``b`` for each port of ``a`` (int32[ports]); -1 if the node was
    removed or has no such port."""
    node = to_b[a.port_node] if a.sizes.ports else np.zeros(0, np.int32)
    kept = np.maximum(node, 0)
    if not b.sizes.nodes:
        return np.full(a.sizes.ports, -1, np.int64)
    there = (node >= 0) & (a.port_num <= b.node_nports[kept]) & ((a.port_num > 0) | b.is_switch[kept])
    return np.where(there, b.node_base[kept].astype(np.int64) + a.port_num, -1)


def _cables(a: Fabric, b: Fabric, to_b: np.ndarray) -> Iterator[Change]:
    port_b = _ports_in_b(a, b, to_b)
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
    """Return the change for a cable of ``a`` that is not in ``b``: *moved* if one of its ports now
    holds a cable that no other change claims."""
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
            return Change(
                "cable-moved",
                (stays, old_peer, new_peer),
                was,
                " - ".join(_ends(b, new)),
                f"{stays} leads to {new_peer}, previously to {old_peer}",
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
    port_b = _ports_in_b(a, b, to_b)
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
