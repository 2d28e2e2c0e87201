"""From a proof to what the report and ``softib route`` say about forwarding tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.report.model import RoutingPart
from softib.routing.graph import SwitchGraph
from softib.routing.verify import Pairs, Proof, verify

__all__ = ["judge", "part_of"]


def judge(
    fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, engine: str, origin: str,
    path_sl: np.ndarray | None = None, sl2vl: np.ndarray | None = None, notes: list[str] | None = None,
) -> RoutingPart:  # fmt: skip
    """Prove ``lft`` (uint8[switches, LIDs]) and put the proof in words. ``origin`` says where the tables come from."""
    return part_of(fabric, graph, verify(graph, lft, path_sl, sl2vl), engine, origin, notes or [])


def part_of(
    fabric: Fabric, graph: SwitchGraph, proof: Proof, engine: str, origin: str, notes: list[str]
) -> RoutingPart:
    """The proof with names instead of rows."""
    loop = proof.credit_loop
    return RoutingPart(
        engine=engine,
        origin=origin,
        deadlock_free=proof.deadlock_free,
        credit_loop=None if loop is None else [(_name(fabric, graph, s), port, vl) for s, port, vl in loop],
        unreachable=proof.unreachable,
        loops=proof.ca_ca.loop + proof.ca_switch.loop,
        hops=proof.hops,
        switch_unreachable=proof.switch_switch.lost,
        notes=notes,
        facts=[
            ("Virtual lanes in use", str(proof.vls)),
            ("Channels and their dependencies", f"{proof.channels:,} and {proof.dependencies:,}"),
        ],
        more={
            "pairs": {
                "ca_ca": _pairs(proof.ca_ca),
                "ca_switch": _pairs(proof.ca_switch),
                "switch_switch": _pairs(proof.switch_switch),
            },
            "hops_ca": {str(h): n for h, n in sorted(proof.hops_ca.items())},
            "channels": proof.channels,
            "dependencies": proof.dependencies,
            "vls": proof.vls,
            "failures": [_failure(fabric, graph, f) for f in proof.failures],
        },
    )


def _name(fabric: Fabric, graph: SwitchGraph, switch: int) -> str:
    return fabric.node_name(int(graph.switch_node[switch]))


def _pairs(pairs: Pairs) -> dict[str, int]:
    return {"total": pairs.total, "arrived": pairs.arrived, "dead_end": pairs.dead_end, "loop": pairs.loop,
            "misdelivered": pairs.misdelivered, "dropped": pairs.dropped}  # fmt: skip


def _failure(fabric: Fabric, graph: SwitchGraph, f: Any) -> dict[str, Any]:
    end = fabric.node_name(int(graph.end_node[f.end]))
    return {"kind": f.kind, "switch": _name(fabric, graph, f.switch), "to": end, "lid": f.lid, "what": f.what}
