"""What ``route --json`` holds, and ``routing`` of ``report --json``, as
:mod:`softib.render.document_types.common` has the others."""

from __future__ import annotations

import sys
from typing import Literal

if sys.version_info >= (3, 12):
    from typing import NotRequired, TypedDict
else:  # pydantic wants it from there
    from typing import NotRequired

    from typing_extensions import TypedDict

from softib.render.document_types.common import Problem

__all__ = ["Route", "Routing"]

Step = tuple[str, int, int]
"""Switch, egress port, virtual lane."""


class Pairs(TypedDict):
    """What becomes of packets between pairs of ends."""

    total: int
    arrived: int
    dead_end: int
    loop: int
    misdelivered: int
    dropped: int


class AllPairs(TypedDict):
    """Pairs by what they are: channel adapters and port 0 of switches."""

    ca_ca: Pairs
    ca_switch: Pairs
    switch_switch: Pairs
    switch_ca: Pairs


class TierLoad(TypedDict):
    """Paths of all-to-all traffic on the links between two tiers."""

    low: int
    high: int
    links: int
    least: int
    mean: float
    most: int
    imbalance: float
    worst: list[tuple[str, int, int]]
    """Switch, port, paths."""


class Balance(TypedDict):
    """How evenly paths of all-to-all traffic are spread over links."""

    paths_most: int
    paths_mean: float
    unused_links: int
    tiers: list[TierLoad]


class Failure(TypedDict):
    """A pair that a packet does not get between, and what happens to it."""

    kind: str
    switch: str
    to: str
    lid: int
    what: str


class SwitchRoutes(TypedDict):
    """Routes from every switch to every address of another end port."""

    total: int
    arrived: int


class Routing(TypedDict):
    """Forwarding tables and their proof."""

    engine: str
    deadlock_free: bool
    credit_loop: list[Step] | None
    unreachable: int
    """Pairs of a CA and another CA or switch that no path connects."""
    ports_without_lid: int
    """Cabled ports of channel adapters that have no LID, and so are in no pair."""
    hops: dict[str, int]
    """Pairs by switches that a packet passes."""
    tables: str
    loops: int
    switch_unreachable: int | None
    """Pairs of a switch itself and a CA or another switch that no path connects."""
    origin: str
    notes: list[str]
    pairs: AllPairs
    hops_ca: dict[str, int]
    channels: int
    dependencies: int
    vls: int
    sls_assumed: str
    """Why the paths' SLs are not known; empty where they are."""
    answer_loop: list[Step] | None
    """A cycle that takes answers on the SL of the request, as connections by the connection manager
    send them."""
    switch_loop: list[Step] | None
    failures: list[Failure]
    balance: Balance
    switch_routes: NotRequired[SwitchRoutes]
    """Only of tables that were read from a file."""
    other_subnets: NotRequired[list[OtherSubnet]]
    """Only of a fabric with several subnets that have tables of their own."""


class OtherSubnet(TypedDict):
    """Tables of a subnet of a fabric beside the one that the rest of the document is about."""

    subnet: str
    """Which one: that a port manages, or of a port."""
    host_ports: int
    unreachable: int
    ports_without_lid: int
    deadlock_free: bool


class Route(Routing):
    """softib route --json"""

    schema: Literal["softib/route/1"]
    problems: list[Problem]
