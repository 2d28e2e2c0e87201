"""A fabric with forwarding tables: brought up by the subnet manager, or with tables from a file; both judged alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, PeerError
from softib.fabric.formats.base import Problem, ReadResult
from softib.fabric.model import Fabric
from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.smp import PortInfo, SwitchInfo
from softib.report.labels import with_names
from softib.report.model import BringUpPart, RoutingPart
from softib.report.routing_part import judge
from softib.routing.engine import RouteOptions
from softib.routing.graph import SwitchGraph

if TYPE_CHECKING:
    from softib.routing.quality import Balance
    from softib.routing.verify import Proof
    from softib.scenario.bring_up import BringUp

__all__ = ["DEFAULT_ENGINE", "Routed", "check_choice", "from_engine", "from_file", "routed"]

DEFAULT_ENGINE = "ftree,updn"
"""Where nobody names an engine: the one for trees, and where the fabric is none, one that cannot deadlock."""

RUNNING = "running"
"""Format of a source that is a running fabric."""
Steps = Callable[[str], AbstractContextManager[None]]


@dataclass
class Routed:
    """``fabric`` carries LIDs and tables; ``lft`` uint8[switches, LIDs] are the tables that were judged."""

    fabric: Fabric
    graph: SwitchGraph
    lft: np.ndarray
    part: RoutingPart
    proof: Proof
    balance: Balance
    bring_up: BringUpPart | None = None
    options: RouteOptions | None = None
    problems: list[Problem] = field(default_factory=list)


def check_choice(engine: str | None, lfts: str | None) -> None:
    """Raise :class:`InputError` where both are given, ``UnknownName`` where the engine does not exist."""
    from softib.routing.engine import chain

    if engine is not None and lfts is not None:
        raise InputError("--engine computes tables and --lfts reads them; give one of the two")
    if engine is not None:
        chain(engine)


def routed(result: ReadResult, engine: str | None, lfts: str | None, steps: Steps) -> Routed:
    """Tables for ``result``: those of the dump ``lfts``, those that a running fabric has, or new ones (``engine``
    given, or nothing else there)."""
    if lfts:
        return from_file(result, lfts, steps)
    if result.format == RUNNING and engine is None:
        return as_programmed(result, steps)
    return from_engine(result, engine, steps)


def as_programmed(result: ReadResult, steps: Steps) -> Routed:
    """Judge the tables in the switches of a running fabric, up to the LinearFDBTop of each.

    The paths' SLs are the SA's knowledge, so all are taken as SL 0. Raises :class:`PeerError` where no LID was given yet.
    """
    from softib.scenario.graph_view import graph_of

    fabric = result.fabric
    if not fabric.lid.any():
        raise PeerError("no port has a LID: no subnet manager was there yet (an engine given routes a copy of it)")
    with steps("proof"):
        graph = graph_of(fabric)
        lft = fabric.lft[:, : graph.lft_size].copy()
        top = SwitchInfo.linear_fdb_top.get(fabric.switch_info)
        lft[np.arange(lft.shape[1]) > top[:, None]] = LFT_NO_ROUTE
        part, proof, even = judge(fabric, graph, lft, "as programmed", "as they are in the switches")
    return Routed(fabric, graph, lft, part, proof, even)


def from_engine(result: ReadResult, engine: str | None, steps: Steps) -> Routed:
    """Bring a powered-on copy of the fabric up with the subnet manager, over MADs, and judge what it wrote.

    A fabric.yaml's ``sm`` section counts where ``engine`` is not given. Raises :class:`LimitError` for more LIDs than
    InfiniBand has.
    """
    from softib.scenario.bring_up import bring_up

    told = result.extra.get("sm", {})
    name = engine or told.get("engine") or DEFAULT_ENGINE
    fabric = result.fabric.copy()
    fabric.power_on()
    with steps("bring-up"):
        options = route_options(told)
        up = bring_up(fabric, name, node=told.get("node"), options=options, lmc=told.get("lmc", 0))
    with steps("proof"):
        r = up.routing
        origin = "written by our subnet manager over MADs"
        asked = r.engine if "," in name else name
        part, proof, even = judge(fabric, up.graph, r.lft, asked, origin, r.path_sl, r.sl2vl, list(r.notes))
    part.tables = r.engine
    return Routed(fabric, up.graph, r.lft, part, proof, even, bring_up_part(up), options)


def route_options(told: dict[str, Any]) -> RouteOptions:
    """Engine options of a fabric.yaml's ``sm`` section: its GUID files, read."""
    lists: dict[str, Any] = {f"{kind}_guids": _guids(told[f"{kind}_guid_file"]) for kind in ("root", "cn", "io")
             if told.get(f"{kind}_guid_file")}  # fmt: skip
    return RouteOptions(**lists, **{key: told[key] for key in ("data_vls", "seed") if key in told})


def _guids(path: str) -> tuple[int, ...]:
    """A GUID a line, hexadecimal, as OpenSM's files have them; ``#`` begins a comment."""
    guids = []
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, 1):
        word = line.split("#")[0].strip()
        if word:
            try:
                guids.append(int(word, 16))
            except ValueError:
                raise InputError(
                    f"{path}:{number}: {word!r} is no GUID; write one a line, such as 0x0002c90300000001"
                ) from None
    return tuple(guids)


def from_file(result: ReadResult, path: str, steps: Steps) -> Routed:
    """Judge the tables of a dump.

    A fabric without LIDs (generated, ``.topo``) takes them from the dump's own destinations. Raises :class:`InputError`
    where neither file tells them.
    """
    from softib.fabric.formats.lft_dump import read_lfts, read_lids
    from softib.scenario.graph_view import graph_of

    fabric = result.fabric
    unknown: list[Problem] = []
    if not fabric.lid.any():
        lids, unknown = read_lids(path, fabric)
        if not lids.any():
            raise InputError(
                f"{fabric.source.path}: neither this file nor {path} tells LIDs, and tables are by LID; give one that does"
            )
        fabric = fabric.copy()
        PortInfo.lid.set(fabric.port_info, lids)
    with steps("reading tables"):
        lft, problems = read_lfts(path, fabric)
    problems = [*unknown, *problems]
    with steps("proof"):
        graph = graph_of(fabric)
        lft = lft[:, : graph.lft_size]
        part, proof, even = judge(fabric, graph, lft, "file", f"read from {path}")
    # From every switch to every address of another end port.
    routes = (proof.switch_switch, proof.switch_ca)
    arrived, total = sum(p.arrived for p in routes), sum(p.total for p in routes)
    part.facts.append(("Routes from a switch to an address", f"{arrived:,} of {total:,} arrive"))
    part.more["switch_routes"] = {"total": total, "arrived": arrived}
    return Routed(fabric, graph, lft, part, proof, even, problems=problems)


def bring_up_part(up: BringUp) -> BringUpPart:
    """What the subnet manager did, in words and numbers."""
    sweep, fabric = up.report, up.fabric
    facts = [
        ("Runs on", fabric.port_name(up.port)),
        ("Found", f"{sweep.switches:,} switches, {sweep.cas:,} channel adapters, {sweep.links:,} links"),
        ("Addresses given (LIDs)", f"{sweep.lids:,}"),
        ("MADs", f"{sweep.sent:,}, {sweep.sets:,} of them writes"),
    ]
    if sweep.timeouts:
        facts.append(("MADs never answered", f"{sweep.timeouts:,}"))
    notes = [*sweep.notes, *sweep.problems]
    if len(up.unreached):
        some = ", ".join(fabric.node_name(int(n)) for n in up.unreached[:3])
        notes.append(f"{len(up.unreached):,} nodes have no way to the subnet manager and stay down, such as {some}")
    numbers = {"node": fabric.port_name(up.port), "engine": up.routing.engine, "sets": sweep.sets,
               "unreached": len(up.unreached), **sweep.as_dict()}  # fmt: skip
    numbers.pop("phase_s", None)  # of the virtual clock, which stands still while MADs are answered
    return BringUpPart(facts, numbers, with_names(notes, fabric))
