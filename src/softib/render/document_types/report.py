"""What ``report --json`` holds, as :mod:`softib.render.document_types.common` has the others."""

from __future__ import annotations

import sys
from typing import Literal

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # pydantic wants it from there
    from typing_extensions import TypedDict

from softib.render.document_types.common import Counts, Finding, Plan, Problem, Structure
from softib.render.document_types.routing import Routing

__all__ = ["Report"]


class BringUp(TypedDict):
    """What the subnet manager did."""

    node: str
    engine: str
    sets: int
    unreached: int
    nodes: int
    switches: int
    cas: int
    links: int
    lids: int
    mads: dict[str, int]
    """MADs sent by method and attribute."""
    retries: int
    timeouts: int
    strays: int
    notes: list[str]
    problems: list[str]


class LoadedLink(TypedDict):
    """A link and its load: 1 is exactly full when every host sends at full rate."""

    place: str
    peer: str
    load: float
    gbps: float


class Pattern(TypedDict):
    """A uniform pattern of traffic on the routed fabric."""

    name: str
    text: str
    flows: int
    permutations: int
    of: int
    relative: float
    """Mean rate of a flow by that of its host's link."""
    worst: float
    most_on_a_link: float
    unrouted: int
    busiest: list[LoadedLink]


class EffectiveBisection(TypedDict):
    """Random pairs between two halves: ``relative`` of their own link, the standard deviation of
    its samples' means (``spread``), and the sum of all flows in Gb/s."""

    relative: float
    limit: float | None
    """What the wiring allows random pairs."""
    narrowest_gbps: float | None
    spread: float
    gbps: float
    full_gbps: float


class Prediction(TypedDict):
    """What traffic will do on the routed fabric; times in µs."""

    hosts: int
    rails: int
    seed: int
    effective_bisection: EffectiveBisection
    patterns: list[Pattern]
    ring_allreduce_us: dict[str, float]
    """By bytes of a node, all its rails together."""
    all_to_all_us: dict[str, float]
    """By bytes of a host port."""


class TimedLink(TypedDict):
    """A link, the bytes that the matrix puts on it, and the least time that they take."""

    place: str
    peer: str
    bytes: float
    gbps: float
    time_us: float


class Traffic(TypedDict):
    """The user's own traffic matrix."""

    path: str
    entries: int
    flows: int
    bytes: float
    unrouted: int
    time_us: float
    hosts_us: float
    relative: float
    busiest: list[TimedLink]


class Engine(TypedDict):
    """What one routing engine would give."""

    engine: str
    tables: str
    used: bool
    bisection: float | None
    shift: float | None
    deadlock_free: bool | None
    unreachable: int | None
    note: str
    tried: bool


class Report(TypedDict):
    """softib report --json"""

    schema: Literal["softib/report/1"]
    source: str
    format: str
    fabric: Counts
    findings: list[Finding]
    problems: list[Problem]
    structure: Structure | None
    notes: list[str]
    source_notes: list[str]
    plan: Plan | None
    bring_up: BringUp | None
    """Null for tables that were there already."""
    routing: Routing | None
    prediction: Prediction | None
    traffic: Traffic | None
    engines: list[Engine]
    seconds: dict[str, float]
    """Wall time of each step."""
