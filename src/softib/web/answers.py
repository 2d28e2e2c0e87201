"""Types of the answers of the REST interface, from which the OpenAPI document is made. The answers about findings and
paths have the types of the results of ``softib check`` and ``softib path``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from softib.analysis.path_explanation import Explanation
from softib.diags.finding import Finding
from softib.result import Result, json_type
from softib.web.events import Kind

__all__ = ["answers_of"]


@dataclass
class NodeRow(Result):
    """A device."""

    name: str
    type: Literal["ca", "switch", "router", "unknown"]
    guid: str
    system_guid: str
    system: str | None
    ports: int
    vendor_id: int
    device_id: int
    firmware: str | None
    psid: str | None


@dataclass
class PortRow(Result):
    """A port; a switch's management port has number 0."""

    node: str
    port: int
    label: str | None
    guid: str
    lid: int
    lmc: int
    state: str
    phys_state: str
    speed: str
    lanes: int
    gbps: float
    peer: str | None
    peer_guid: str | None


@dataclass
class LinkRow(Result):
    """A cable."""

    node_a: str
    port_a: int
    node_b: str
    port_b: int
    speed: str
    lanes: int
    gbps: float
    length_m: float | None
    medium: str
    ber: float | None


@dataclass
class DownRow(Result):
    """A missing cable or node that was read before."""

    what: Literal["cable", "node"]
    a: str
    b: str | None
    guids: list[str]
    since: float
    """In seconds since 1970."""
    named: bool
    """Whether a finding names both ends of the cable, or the node at one end is missing."""


@dataclass
class JobRow(Result):
    """A job."""

    job: str
    user: str
    hosts: list[str]
    missing_hosts: list[str]
    """Hosts that this fabric lacks."""
    cables: int
    shared_with: dict[str, int]
    """Links shared with each other job."""
    expected_slowdown: float
    colour: int


@dataclass
class SharedLink(Result):
    """A link that several jobs may use."""

    port: str
    peer: str
    jobs: list[str]


@dataclass
class PortErrors(Result):
    """Errors of a port. Unknown values are null."""

    node: str
    guid: str
    port: int
    peer: str | None
    errors: int | None
    """Sum of the error counters."""
    rose: int | None
    """Increase of the error counters in ``observed_s`` seconds."""
    per_hour: float | None
    observed_s: float | None
    symbol_ber: float | None
    raw_ber: float | None
    """Bit error ratio before FEC."""
    effective_ber: float | None
    """Bit error ratio after FEC."""
    counters: dict[str, int]
    """Error counters that are not 0."""
    rises: dict[str, int]


@dataclass
class ModuleRow(Result):
    """A module or cable. Unknown values are null."""

    node: str
    guid: str
    port: int
    peer: str | None
    vendor: str | None
    part: str | None
    serial: str | None
    kind: str | None
    length_m: float | None
    temperature_c: float | None
    rx_power_dbm: float | None
    tx_power_dbm: float | None
    tx_bias_ma: float | None
    voltage_v: float | None


@dataclass
class EventRow(Result):
    """An event while the server was running."""

    time: float
    """In seconds since 1970."""
    kind: Kind
    severity: Literal["info", "warning", "error"]
    text: str
    node: str | None
    guid: str | None
    portnum: int | None


@dataclass
class ManagerRow(Result):
    """A subnet manager."""

    guid: str
    lid: int
    state: str
    priority: int
    answers: bool
    stalled: bool


@dataclass
class FabricAnswer(Result):
    """The served fabric."""

    name: str
    switches: int
    hosts: int
    cables: int
    time: float
    """Time of the last reading, in seconds since 1970."""
    version: int
    """Number that increases when a node, cable, table or finding changes."""
    age_s: float
    stale: bool
    drawn: int
    """Number that increases when the map changes."""
    problem: str
    rates: dict[str, int]
    """Number of links with each rate."""
    findings: int
    down: int
    jobs: int | None
    managers: list[ManagerRow]
    manager: dict[str, Any] | None
    """Status of the manager that runs in a running fabric."""
    running: bool
    paths: bool
    """Whether forwarding tables are known."""
    events: int
    timed: bool
    """Whether there is a history."""


@dataclass
class Match(Result):
    """A node of the map."""

    row: int
    name: str
    guid: str


@dataclass
class SearchAnswer(Result):
    """Nodes that match."""

    total: int
    rows: list[Match]


@dataclass
class PortHistory(Result):
    """Columns of one port over time."""

    time: list[float]
    """In seconds since 1970."""
    load: list[float | None]
    """Load as a share of the link's rate."""
    wait: list[float | None]
    """Share of the time for which the port waited for credits."""
    errors: list[int]


@dataclass
class MapLevel(Result):
    """Groups of a level of detail."""

    of: list[int]
    """Group of each node."""
    x: list[float]
    y: list[float]
    count: list[int]
    name: list[str]


@dataclass
class MapAnswer(Result):
    """The map, as columns."""

    drawn: int
    name: list[str]
    guid: list[str]
    kind: list[int]
    """0 switch, 1 adapter, 2 router."""
    tier: list[int]
    leaf: list[int]
    level: list[MapLevel | None]
    x: list[float]
    y: list[float]
    edge: list[int]
    """Pairs of node rows."""


@dataclass
class ValuesAnswer(Result):
    """Colours of the map: one byte per edge or node, in base64."""

    drawn: int
    version: int
    time: float | None
    by: Literal["load", "wait", "errors", "findings", "jobs"]
    most: float | None
    problem: str
    node: str
    value: str
    down: str
    age_s: float
    stale: bool


@dataclass
class TimesAnswer(Result):
    """Times of the history."""

    total: int
    time: list[float]
    every_s: float | None


CounterRow = dict[str, str | int | float | None]
"""Node, port, time of the reading, and each counter (null if the device did not answer)."""


PAGES = {
    "nodes": NodeRow,
    "ports": PortRow,
    "counters": CounterRow,
    "links": LinkRow,
    "down": DownRow,
    "jobs": JobRow,
    "shared-links": SharedLink,
    "port-errors": PortErrors,
    "modules": ModuleRow,
    "events": EventRow,
    "findings": Finding,
}
ANSWERS: dict[str, type[Result]] = {
    "fabric": FabricAnswer,
    "path": Explanation,
    "search": SearchAnswer,
    "history": PortHistory,
    "map": MapAnswer,
    "values": ValuesAnswer,
    "times": TimesAnswer,
}


def answers_of(path: str) -> dict[int | str, dict[str, Any]]:
    """Return ``responses`` of the route ``/api/v1/PATH``: the type of its answer."""
    if path in ANSWERS:
        return {200: {"model": json_type(ANSWERS[path])}}
    row: Any = PAGES[path]
    page: Any = TypedDict  # mypy takes only literal names and types
    row = json_type(row) if isinstance(row, type) and issubclass(row, Result) else row
    name = path.title().replace("-", "")
    return {200: {"model": page(f"{name}Page", {"total": int, "offset": int, "rows": list[row]})}}
