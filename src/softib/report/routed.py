"""A fabric with forwarding tables: brought up by the subnet manager, or with tables from a file; both judged alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.formats.base import Problem, ReadResult
from softib.fabric.model import Fabric
from softib.report.model import BringUpPart, RoutingPart
from softib.report.routing_part import judge
from softib.routing.graph import SwitchGraph

__all__ = ["DEFAULT_ENGINE", "Routed", "check_choice", "from_engine", "from_file"]

DEFAULT_ENGINE = "minhop"
"""OpenSM's default."""

Steps = Callable[[str], AbstractContextManager[None]]


@dataclass
class Routed:
    """``fabric`` carries LIDs and tables; ``lft`` uint8[switches, LIDs] are the tables that were judged."""

    fabric: Fabric
    graph: SwitchGraph
    lft: np.ndarray
    part: RoutingPart
    bring_up: BringUpPart | None = None
    problems: list[Problem] = field(default_factory=list)


def check_choice(engine: str | None, lfts: str | None) -> None:
    """Raise :class:`InputError` where both are given, ``UnknownName`` where the engine does not exist."""
    from softib.errors import UnknownName
    from softib.routing.engine import ENGINES

    if engine is not None and lfts is not None:
        raise InputError("--engine computes tables and --lfts reads them; give one of the two")
    if engine is not None and engine not in ENGINES:
        raise UnknownName("routing engine", engine, ENGINES)


def from_engine(result: ReadResult, engine: str | None, steps: Steps) -> Routed:
    """Bring a powered-on copy of the fabric up with the subnet manager, over MADs, and judge what it wrote."""
    from softib.scenario.bring_up import bring_up
    from softib.scenario.graph_view import graph_of

    name = engine or result.extra.get("sm", {}).get("engine") or DEFAULT_ENGINE
    fabric = result.fabric.copy()
    fabric.power_on()
    with steps("bring-up"):
        up = bring_up(fabric, engine=name)
    with steps("proof"):
        graph = graph_of(fabric)
        lft = fabric.lft[:, : graph.lft_size]
        part = judge(fabric, graph, lft, name, "written by our subnet manager over MADs")
    return Routed(fabric, graph, lft, part, bring_up_part(up))


def from_file(result: ReadResult, path: str, steps: Steps) -> Routed:
    """Judge the tables of a dump. Raises :class:`InputError` where the fabric's file has no LIDs."""
    from softib.fabric.formats.lft_dump import read_lfts
    from softib.scenario.graph_view import graph_of

    fabric = result.fabric
    if not fabric.lid.any():
        raise InputError(f"{fabric.source.path}: this file records no LIDs, and tables are by LID; give one that does")
    with steps("reading tables"):
        lft, problems = read_lfts(path, fabric)
    with steps("proof"):
        graph = graph_of(fabric)
        lft = lft[:, : graph.lft_size]
        part = judge(fabric, graph, lft, "file", f"read from {path}")
    return Routed(fabric, graph, lft, part, None, problems)


def bring_up_part(up: Any) -> BringUpPart:
    """What the subnet manager did, in words and numbers."""
    return BringUpPart([], {})
