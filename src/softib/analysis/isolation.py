"""Chooses the cables to isolate: those that findings name, up to a budget, but never the last path between two hosts.
Two conditions are proven. First, without the cable, its two switches are still connected, and each keeps half of its
cables to other switches. Second, softib's subnet manager brings up a copy of the fabric without the chosen cables, and
its tables connect every pair of ports that was connected before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from softib.analysis.observed_fabric import cable_at
from softib.analysis.routed import routed
from softib.analysis.routing import Steps
from softib.components import components
from softib.diags.finding import Finding
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.fabric.plugging import delete_cables
from softib.iba.constants import PortState
from softib.plural import counted, plural
from softib.result import HIDDEN, Result, key

__all__ = ["Choice", "End", "ProvenChoices", "budget_of", "choose", "proven", "without_cables"]

End = tuple[int, int]
"""(NodeGUID, port number) of a port."""
LEFT = 0.5
"""Minimum share of a switch's cables to other switches that stays in use."""


@dataclass(frozen=True)
class Choice(Result):
    """A cable that a finding proposes to isolate."""

    cable: str
    """Both ends of the cable."""
    code: str
    """Code of the finding."""
    message: str
    """Text of the finding."""
    confidence: float | None
    isolate: bool
    """True if the cable is to be isolated, False if it stays in use."""
    why: str
    """Reason for leaving it in use; empty if it is isolated."""
    cables_left: dict[str, str]
    """Switch at either end → its cables to other switches that remain in use."""
    commands: list[str]
    """Commands that isolate the cable with other programs: ibportstate, a line of OpenSM's hop_weights_file, a request
    of UFM's REST API."""
    ends: tuple[End, ...] = field(default=(), metadata=HIDDEN)
    guids: list[str] = field(default_factory=list, metadata=key(name="node_guids"))
    """NodeGUIDs of both ends."""


def budget_of(cables: int, least: float, share: float) -> int:
    """Return the number of cables that may be isolated at once."""
    return int(max(least, np.ceil(share * cables)))


class _Cables:
    """The cables of a fabric that are in use, and for each switch those that lead to other switches. ``away``: ends of
    cables that are already isolated."""

    def __init__(self, fabric: Fabric, away: Iterable[Sequence[End]]):
        self.fabric = fabric
        ends = fabric.cable_port
        state = fabric.port_state
        self.used = (ends >= 0).all(axis=1) & (state[ends] != PortState.DOWN).all(axis=1)
        self.a, self.b = fabric.port_node[ends[:, 0]].astype(np.int64), fabric.port_node[ends[:, 1]].astype(np.int64)
        self.between = fabric.is_switch[self.a] & fabric.is_switch[self.b] & (ends >= 0).all(axis=1)
        away = [tuple(ends) for ends in away]
        for ends_away in away:
            for cable in {cable_at(fabric, *end) for end in ends_away} - {-1}:
                self.used[cable] = False
        count = np.bincount(np.concatenate([self.a[self._live()], self.b[self._live()]]), minlength=fabric.sizes.nodes)
        self.whole = count.astype(np.int64)
        for guid in [guid for ends_away in away for guid, _ in ends_away]:
            self.whole[fabric.node_guid == np.uint64(guid)] += 1

    def _live(self) -> np.ndarray:
        return self.between & self.used

    def left(self, node: int) -> int:
        """Return the number of cables in use from a switch to other switches."""
        return int((self._live() & ((self.a == node) | (self.b == node))).sum())

    def last_path(self, cable: int) -> bool:
        """Return whether the two nodes of a cable are connected only by it."""
        used = self.used.copy()
        used[cable] = False
        part = components(self.fabric.sizes.nodes, self.a[used], self.b[used])
        return bool(part[self.a[cable]] != part[self.b[cable]])


def choose(
    fabric: Fabric, findings: Iterable[Finding], budget: int, away: Sequence[Sequence[End]] = ()
) -> list[Choice]:
    """Return one choice for each cable that a finding proposes to isolate, in the order of
    ``findings``. ``away``: ends of the cables that are isolated already; they count in ``budget``."""
    cables = _Cables(fabric, away)
    out: list[Choice] = []
    taken = len(away)
    for one in findings:
        isolate = one.evidence.get("isolate")
        if isolate is None or not one.where:
            continue
        cable = cable_at(fabric, one.where[0].guid, one.where[0].portnum)
        why = _objection(cables, cable) if isolate["now"] else str(isolate["why"])
        if not why and taken >= budget:
            why = f"{counted(taken, 'cable')} of a budget of {budget} {plural(taken, 'is', 'are')} isolated already"
        if not why:
            cables.used[cable] = False
            taken += 1
        out.append(_choice(cables, one, cable, why))
    return out


def _objection(cables: _Cables, cable: int) -> str:
    """Return the reason for leaving a cable in use, or an empty text."""
    f = cables.fabric
    if cable < 0:
        return "the fabric has no cable at this port"
    if not cables.used[cable]:
        return "its link is down"
    a, b = (int(p) for p in f.cable_port[cable])
    for port in (a, b):
        if not f.is_switch[f.port_node[port]]:
            return f"it is the only cable of {f.port_name(port)}; drain the host (softib node-check --drain)"
    if cables.last_path(cable):
        return (
            f"it is the last path between {f.node_name(int(cables.a[cable]))} and {f.node_name(int(cables.b[cable]))}"
        )
    for node in (int(cables.a[cable]), int(cables.b[cable])):
        left, whole = cables.left(node) - 1, int(cables.whole[node])
        if left < LEFT * whole:
            return f"{f.node_name(node)} would keep {left} of its {counted(whole, 'cable')} to other switches"
    return ""


def _choice(cables: _Cables, one: Finding, cable: int, why: str) -> Choice:
    f = cables.fabric
    name = " ↔ ".join(dict.fromkeys(str(w) for w in one.where[:2]))
    confidence = one.evidence.get("confidence")
    if cable < 0:
        return Choice(name, one.code, one.message, confidence, False, why, {}, [])
    ports = [int(p) for p in f.cable_port[cable]]
    nodes = [int(f.port_node[p]) for p in ports]
    ends = tuple((int(f.node_guid[n]), int(f.port_num[p])) for n, p in zip(nodes, ports, strict=True))
    left = {f.node_name(n): f"{cables.left(n)} of {cables.whole[n]}" for n in nodes if f.is_switch[n] and not why}
    name = " ↔ ".join(f.port_name(p) for p in ports)
    commands = [] if why else _commands(f, nodes, ports)
    guids = [f"{guid:#018x}" for guid, _ in ends]
    return Choice(
        cable=name,
        code=one.code,
        message=one.message,
        confidence=confidence,
        isolate=not why,
        why=why,
        cables_left=left,
        commands=commands,
        ends=ends,
        guids=guids,
    )


def _commands(f: Fabric, nodes: list[int], ports: list[int]) -> list[str]:
    """Return commands that isolate the cable with other programs. The first of ``ports`` is a port of a switch."""
    node, port = nodes[0], ports[0]
    guid, number = int(f.node_guid[node]), int(f.port_num[port])
    lid = int(f.lid[int(f.node_base[node])])
    both = [(int(f.node_guid[n]), int(f.port_num[p])) for n, p in zip(nodes, ports, strict=True)]
    weights = "; ".join(f"{g:#018x} {n} 63" for g, n in both)
    body = f'{{"ports": ["{guid:016x}_{number}"], "ports_policy": "UNHEALTHY", "action": "isolate"}}'
    return [
        f"ibportstate {lid} {number} disable",
        f"hop_weights_file: {weights}",
        f"PUT /ufmRest/app/unhealthy_ports {body}",
    ]


def without_cables(fabric: Fabric, ends: Iterable[Sequence[End]]) -> Fabric:
    """Return a copy of ``fabric`` without these cables."""
    less = fabric.copy()
    rows = {cable_at(fabric, *end) for both in ends for end in both} - {-1}
    if rows:
        delete_cables(less, np.array(sorted(rows)))
    return less


class ProvenChoices(NamedTuple):
    """Cables that can be isolated together: every pair of ports stays connected."""

    choices: list[Choice]
    proof: str
    """One line; empty if no cable is isolated."""


def proven(result: ReadResult, choices: list[Choice], steps: Steps) -> ProvenChoices:
    """Return the choices with a proof. The last choice is dropped repeatedly, until the tables of a subnet manager
    without the remaining cables connect every pair of ports."""
    chosen = [c for c in choices if c.isolate]
    if not chosen:
        return ProvenChoices(choices, "")
    before, loops = _judged(result, steps)
    dropped: dict[str, str] = {}
    while chosen:
        less = replace(result, fabric=without_cables(result.fabric, [c.ends for c in chosen]))
        lost, loops_now = _judged(less, steps)
        if lost <= before and (loops or not loops_now):
            break
        why = f"{counted(lost, 'pair')} of ports would have no path" if lost > before else "the tables could deadlock"
        dropped[chosen.pop().cable] = why
    out = [
        replace(c, isolate=False, why=dropped[c.cable], cables_left={}, commands=[]) if c.cable in dropped else c
        for c in choices
    ]
    if not chosen:
        return ProvenChoices(out, "")
    proof = f"tables without {counted(len(chosen), 'cable')} connect every pair of ports that is connected now"
    return ProvenChoices(out, proof)


def _judged(result: ReadResult, steps: Steps) -> tuple[int, bool]:
    """Return the number of lost pairs, and whether a credit loop can form, with the tables of softib's subnet manager.
    Raises an error if it cannot route."""
    try:
        part = routed(replace(result, format="copy"), None, None, steps).part
    except SoftibError as error:
        raise type(error)(f"without these cables no forwarding tables can be computed: {error}") from None
    return part.unreachable, not part.deadlock_free
