"""A fabric with forwarding tables and their proof. The module brings up a fabric with softib's subnet manager, and
judges any tables for the report and for ``softib route``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softib.analysis.model import AllPairs, BringUpPart, LostPair, PathSpread, RoutingPart, Step, TierLoad
from softib.components import components
from softib.fabric.end_ports import common_lmc
from softib.fabric.formats.base import Problem, ReadResult
from softib.fabric.model import Fabric
from softib.fabric.node_finder import master_of
from softib.fabric.power_cycle import power_on
from softib.plural import counted, plural
from softib.routing.engine import RouteOptions
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import Channel
from softib.routing.proof.verify import Failure, Proof, verify
from softib.routing.quality import Balance, balance
from softib.scenario.cut_off import notes_of_parts

if TYPE_CHECKING:
    from softib.scenario.bring_up import BringUp
    from softib.sm.config import SmConfig

__all__ = [
    "JudgedTables",
    "Labels",
    "Routed",
    "Steps",
    "bring_up_part",
    "from_engine",
    "from_unmanaged",
    "judge",
    "note_parts",
    "with_names",
]

Steps = Callable[[str], AbstractContextManager[None]]

_GUID = re.compile(r"\b(?:0x)?([0-9a-fA-F]{16})\b")


@dataclass
class Routed:
    """A fabric with LIDs and forwarding tables.

    * ``lft`` uint8[switches, LIDs]: the tables that were analysed.
    * ``path_sl`` uint8 by [source switch, destination end], one row for all switches, or [end, end] of ``graph``: SLs
      that a manager states for paths (None: it states none).
    * ``config`` and ``manager_node`` are those of softib's manager, if it wrote the tables.
    * ``subnet``: the manager and the agents in that case.
    * ``ask_sls``: a function that queries the subnet administration of a running fabric for the SLs from LIDs to LIDs
      (int16 by pair, -1: no path), if ``path_sl`` does not have them. It raises a :class:`~softib.errors.SoftibError`
      if there is no answer.
    * ``others``: the other subnets of a fabric that has several.
    """

    fabric: Fabric
    graph: SwitchGraph
    lft: np.ndarray
    part: RoutingPart
    proof: Proof
    balance: Balance
    bring_up: BringUpPart | None = None
    options: RouteOptions | None = None
    path_sl: np.ndarray | None = None
    problems: list[Problem] = field(default_factory=list)
    subnet: BringUp | None = None
    config: SmConfig | None = None
    manager_node: str | int | None = None
    ask_sls: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    others: list[Routed] = field(default_factory=list)


class Programmed(NamedTuple):
    """A powered-on copy of a fabric that softib's subnet manager has brought up over MADs."""

    fabric: Fabric
    bring_up: BringUp
    config: SmConfig


def programmed_copy(
    result: ReadResult, engine: str | None, steps: Steps, guid_files: Mapping[str, str | None] | None = None
) -> Programmed:
    """Return a powered-on copy of the fabric that the subnet manager has brought up over MADs, with the manager's
    report.

    ``engine`` and ``guid_files`` (OpenSM's option → path) override a fabric.yaml's ``sm`` section.
    Raises :class:`LimitError` for more LIDs than InfiniBand has.
    """
    from softib.scenario.bring_up import bring_up
    from softib.sm.config import config_of
    from softib.sm.options.fabric_yaml import check_engine_keys, settings_of

    check_engine_keys(result.extra.get("sm", {}))
    section = {**result.extra.get("sm", {}), **{k: v for k, v in (guid_files or {}).items() if v is not None}}
    section |= {"engine": engine} if engine else {}
    settings = {"lmc": common_lmc(result.fabric), **settings_of(section)}
    config = config_of(settings)
    fabric = result.fabric.copy()
    power_on(fabric, keep_lids=True)
    with steps("bring-up"):
        return Programmed(fabric, bring_up(fabric, node=_node_of_manager(result), config=config), config)


def _node_of_manager(result: ReadResult) -> str | int | None:
    """Return the node on which softib's manager runs: the node that a fabric.yaml states, otherwise the node of the
    master manager in the file, so that both managers see the same subnet."""
    return result.extra.get("sm", {}).get("node", master_of(result.fabric))


def from_engine(
    result: ReadResult, engine: str | None, steps: Steps, guid_files: Mapping[str, str | None] | None = None
) -> Routed:
    """Bring up a copy of the fabric (:func:`programmed_copy`, with these arguments), and analyse its tables."""
    fabric, up, config = programmed_copy(result, engine, steps, guid_files)
    with steps("proof"):
        r = up.routing
        origin = "written by softib's subnet manager over MADs"
        wanted = r.engine if "," in config.engine else config.engine
        part, proof, even = judge(
            fabric, up.graph, r.lft, wanted, origin, path_sl=r.path_sl, sl2vl=r.sl2vl, notes=list(r.notes)
        )
    part.tables = r.engine
    tables = Routed(
        fabric=fabric,
        graph=up.graph,
        lft=r.lft,
        part=part,
        proof=proof,
        balance=even,
        bring_up=bring_up_part(up, master_of(result.fabric)),
        options=config.options,
        path_sl=r.path_sl,
        config=config,
        manager_node=_node_of_manager(result),
        subnet=up,
    )
    return note_parts(tables)


def note_parts(of: Routed) -> Routed:
    """Return ``of``. If pairs have no path or ports have no LID, add notes on the parts of the fabric that have no link
    to the largest part."""
    if of.part.unreachable or of.part.ports_without_lid:
        of.part.notes += notes_of_parts(of.fabric, of.graph)
    return of


def bring_up_part(up: BringUp, master: int | None = None) -> BringUpPart:
    """Return the actions of the subnet manager. ``master``: the node of the manager that the source
    lists."""
    sweep, fabric = up.report, up.fabric
    notes = [*sweep.notes, *sweep.problems]
    if len(up.unreached):
        some = ", ".join(fabric.node_name(int(n)) for n in up.unreached[:3])
        notes.append(
            f"{counted(len(up.unreached), 'node')} {plural(len(up.unreached), 'has', 'have')} no path to the subnet "
            f"manager and stay down, such as {some}"
        )
    return BringUpPart(
        node=fabric.port_name(up.port),
        engine=up.routing.engine,
        sets=sweep.sets,
        unreached=len(up.unreached),
        sweep=sweep,
        notes=with_names(notes, fabric),
        problems=list(sweep.problems),
        master="" if master is None else fabric.node_name(master),
        in_its_place=fabric.port_node[up.port] == master,
    )


class JudgedTables(NamedTuple):
    """The proof of forwarding tables, and its description."""

    part: RoutingPart
    proof: Proof
    balance: Balance


def judge(
    fabric: Fabric,
    graph: SwitchGraph,
    lft: np.ndarray,
    engine: str,
    origin: str,
    *,
    path_sl: np.ndarray | None = None,
    sl2vl: np.ndarray | None = None,
    notes: list[str] | None = None,
    data_vls: int = 8,
    assumed: str = "",
) -> JudgedTables:
    """Prove ``lft`` (uint8[switches, LIDs]) and describe the proof. ``origin``: the source of the
    tables; ``assumed``: the reason why the paths' SLs are unknown ("" = known)."""
    proof, even = verify(graph, lft, path_sl, sl2vl, data_vls), balance(graph, lft)
    proof.assumed = assumed
    notes = [*(notes or [])]
    if proof.answer_loop is not None:
        notes.append(f"answers on the SL of the request make a credit loop of {len(proof.answer_loop)} channels")
    if proof.switch_loop is not None:
        which = "between switches" if proof.among_switches else "to and from switches"
        notes.append(f"packets {which} alone make a credit loop of {len(proof.switch_loop)} channels")
    part = RoutingPart(
        engine=engine,
        deadlock_free=proof.deadlock_free,
        credit_loop=_steps(fabric, graph, proof.credit_loop),
        unreachable=proof.unreachable,
        hops=proof.hops,
        tables=engine,
        loops=proof.ca_ca.loop + proof.ca_switch.loop,
        ports_without_lid=_ports_without_lid(fabric, graph),
        switch_unreachable=proof.switch_unreachable - from_unmanaged(graph),
        origin=origin,
        notes=with_names(notes, fabric),
        pairs=AllPairs(proof.ca_ca, proof.ca_switch, proof.switch_switch, proof.switch_ca),
        hops_ca=proof.hops_ca,
        channels=proof.channels,
        dependencies=proof.dependencies,
        vls=proof.vls,
        sls_assumed=proof.assumed,
        answer_loop=_steps(fabric, graph, proof.answer_loop),
        switch_loop=_steps(fabric, graph, proof.switch_loop),
        failures=[_lost_pair(fabric, graph, f) for f in proof.failures],
        balance=_spread(fabric, graph, even),
    )
    return JudgedTables(part, proof, even)


def _ports_without_lid(fabric: Fabric, graph: SwitchGraph) -> int:
    """Return the number of cabled host ports that have no LID in the tables, or, for two hosts that are connected
    directly, no LID at all."""
    ports = np.flatnonzero(fabric.linked & fabric.is_host[fabric.port_node])
    addressed = fabric.port(graph.end_node.astype(np.int64), graph.end_portnum.astype(np.int64))
    direct = ~fabric.is_switch[fabric.port_node[fabric.port_peer[ports]]] & (fabric.lid[ports] > 0)
    return int((~np.isin(ports, addressed) & ~direct).sum())


def from_unmanaged(graph: SwitchGraph) -> int:
    """Return the number of pairs of a LID and a switch in a part of the fabric without any LID. No manager manages such
    a switch, so packets from it are not expected to arrive."""
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    addressed = np.isin(part, part[graph.end_switch])
    return int((~addressed).sum()) * int((1 << graph.end_lmc.astype(np.int64)).sum())


def _spread(fabric: Fabric, graph: SwitchGraph, even: Balance) -> PathSpread:
    """Return the paths of all-to-all traffic by tier. They show how evenly the tables use the links of a tier."""
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
        for t in even.tiers
    ]
    return PathSpread(even.most, even.mean, even.unused, tiers, len(even.paths))


def _steps(fabric: Fabric, graph: SwitchGraph, loop: list[Channel] | None) -> list[Step] | None:
    return None if loop is None else [(_name(fabric, graph, s), port, vl) for s, port, vl in loop]


def _name(fabric: Fabric, graph: SwitchGraph, switch: int) -> str:
    return fabric.node_name(int(graph.switch_node[switch]))


def _lost_pair(fabric: Fabric, graph: SwitchGraph, f: Failure) -> LostPair:
    end = fabric.node_name(int(graph.end_node[f.end]))
    return LostPair(f.kind, _name(fabric, graph, f.switch), end, f.lid, f.what)


class Labels:
    """Replaces GUIDs in notes with names, for example ``0x0002c90300000001`` with ``leaf-1``. A GUID that several nodes
    have is not replaced."""

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
        """Return ``text`` with names for GUIDs that belong to a single node."""
        return _GUID.sub(lambda m: self.name.get(int(m[1], 16)) or m[0], text)


def with_names(texts: Sequence[str], fabric: Fabric) -> list[str]:
    """Return ``texts`` with node names for GUIDs; the table of names is only created if needed."""
    if not any(_GUID.search(t) for t in texts):
        return list(texts)
    labels = Labels(fabric)
    return [labels.named(t) for t in texts]
