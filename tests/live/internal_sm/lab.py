"""What tests of this package share."""

from __future__ import annotations

from pathlib import Path

from softib.fabric.model import Fabric
from softib.routing.proof.verify import verify
from softib.scenario.graph_view import graph_of

CONFIG = "sminfo_polling_timeout 300\npolling_retry_number 2\n"


def says(log: Path, what: str, times: int = 1) -> bool:
    return log.is_file() and log.read_text(errors="replace").count(what) >= times


def proves(f) -> bool:
    proof = verify(graph_of(f), f.lft)
    return proof.unreachable == 0 and proof.deadlock_free


def torus_config(f: Fabric) -> str:
    """``torus-2QoS.conf`` (torus-2QoS.conf(5)): dimensions, and from one switch a link of each in positive direction."""
    tier = f.source.generator["node_coordinates"].tolist()
    at = {tuple(c): int(f.node_guid[n]) for n, c in enumerate(tier) if f.is_switch[n]}
    dims = [max(c[k] for c in at) + 1 for k in range(3)]
    links = [
        f"{axis}p_link {at[0, 0, 0]:#x} {at[to]:#x}"
        for axis, to in (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1)))
    ]
    return "\n".join([f"torus {dims[0]} {dims[1]} {dims[2]}", *links]) + "\n"
