"""From a proof to what the report and ``softib route`` say about forwarding tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from softib.analysis.model import AllPairs, LostPair, PathSpread, RoutingPart, Step, TierLoad
from softib.components import components
from softib.fabric.model import Fabric
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import Channel
from softib.routing.proof.verify import Failure, Proof, verify
from softib.routing.quality import Balance, balance

__all__ = ["Labels", "from_unmanaged", "judge", "with_names"]

_GUID = re.compile(r"\b(?:0x)?([0-9a-fA-F]{16})\b")


def judge(
    fabric: Fabric,
    graph: SwitchGraph,
    lft: np.ndarray,
    engine: str,
    origin: str,
    path_sl: np.ndarray | None = None,
    sl2vl: np.ndarray | None = None,
    notes: list[str] | None = None,
    data_vls: int = 8,
    assumed: str = "",
) -> tuple[RoutingPart, Proof, Balance]:
    """Prove ``lft`` (uint8[switches, LIDs]) and put the proof in words. ``origin`` says where the
    tables come from, ``assumed`` why the paths' SLs are not known ("" = they are)."""
    proof, even = verify(graph, lft, path_sl, sl2vl, data_vls), balance(graph, lft)
    proof.assumed = assumed
    notes = [*(notes or [])]
    if proof.answer_loop is not None:
        notes.append(f"answers on the SL of the request make a credit loop of {len(proof.answer_loop)} channels")
    if proof.switch_loop is not None:
        which = "between switches" if proof.among_switches else "to and from switches"
        notes.append(f"packets {which} alone make a credit loop of {len(proof.switch_loop)} channels")
    part = RoutingPart(
        engine,
        proof.deadlock_free,
        _steps(fabric, graph, proof.credit_loop),
        proof.unreachable,
        proof.hops,
        engine,
        proof.ca_ca.loop + proof.ca_switch.loop,
        _ports_without_lid(fabric, graph),
        proof.switch_unreachable - from_unmanaged(graph),
        origin,
        with_names(notes, fabric),
        AllPairs(proof.ca_ca, proof.ca_switch, proof.switch_switch, proof.switch_ca),
        proof.hops_ca,
        proof.channels,
        proof.dependencies,
        proof.vls,
        proof.assumed,
        _steps(fabric, graph, proof.answer_loop),
        _steps(fabric, graph, proof.switch_loop),
        [_lost_pair(fabric, graph, f) for f in proof.failures],
        _spread(fabric, graph, even),
    )
    return part, proof, even


def _ports_without_lid(fabric: Fabric, graph: SwitchGraph) -> int:
    """Cabled ports of hosts that the tables know no address of; of two that a cable joins directly,
    those without one."""
    ports = np.flatnonzero(fabric.linked & fabric.is_host[fabric.port_node])
    known = fabric.port(graph.end_node.astype(np.int64), graph.end_portnum.astype(np.int64))
    direct = ~fabric.is_switch[fabric.port_node[fabric.port_peer[ports]]] & (fabric.lid[ports] > 0)
    return int((~np.isin(ports, known) & ~direct).sum())


def from_unmanaged(graph: SwitchGraph) -> int:
    """Pairs of a switch in a part without any address and an address: no manager knows the switch,
    and nothing is expected to arrive."""
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    addressed = np.isin(part, part[graph.end_switch])
    return int((~addressed).sum()) * int((1 << graph.end_lmc.astype(np.int64)).sum())


def _spread(fabric: Fabric, graph: SwitchGraph, found: Balance) -> PathSpread:
    """Paths of all-to-all traffic by tier: how evenly the tables use links that do the same work."""
    tiers = [
        TierLoad(
            t.low,
            t.high,
            t.links,
            t.least,
            t.mean,
            t.most,
            t.imbalance,
            [(_name(fabric, graph, s), port, n) for s, port, n in t.worst],
        )
        for t in found.tiers
    ]
    return PathSpread(found.most, found.mean, found.unused, tiers, len(found.paths))


def _steps(fabric: Fabric, graph: SwitchGraph, loop: list[Channel] | None) -> list[Step] | None:
    return None if loop is None else [(_name(fabric, graph, s), port, vl) for s, port, vl in loop]


def _name(fabric: Fabric, graph: SwitchGraph, switch: int) -> str:
    return fabric.node_name(int(graph.switch_node[switch]))


def _lost_pair(fabric: Fabric, graph: SwitchGraph, f: Failure) -> LostPair:
    end = fabric.node_name(int(graph.end_node[f.end]))
    return LostPair(f.kind, _name(fabric, graph, f.switch), end, f.lid, f.what)


class Labels:
    """Makes ``0x0002c90300000001`` in a note ``leaf-1``; GUIDs that several nodes carry stay."""

    def __init__(self, fabric: Fabric):
        self.name: dict[int, str] = {}
        several: set[int] = set()
        names = fabric.node_names()
        for guids, owners in ((fabric.port_guid, fabric.port_node), (fabric.node_guid, range(len(names)))):
            for guid, node in zip(guids.tolist(), owners, strict=True):
                if guid and self.name.setdefault(guid, names[int(node)]) != names[int(node)]:
                    several.add(guid)
        for guid in several:
            del self.name[guid]

    def named(self, text: str) -> str:
        """``text`` with names for the GUIDs that one node carries."""
        return _GUID.sub(lambda m: self.name.get(int(m[1], 16)) or m[0], text)


def with_names(texts: Sequence[str], fabric: Fabric) -> list[str]:
    """``texts`` with node names for GUIDs; the table of names is only made where one is needed."""
    if not any(_GUID.search(t) for t in texts):
        return list(texts)
    labels = Labels(fabric)
    return [labels.named(t) for t in texts]
