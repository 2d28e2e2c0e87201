"""What the documents of our subnet manager hold (``sm-run``, ``sm-explain``), as
:mod:`softib.render.document_types.common` has the others."""

from __future__ import annotations

import sys
from typing import Any, Literal

from softib.render.document_types.running import Sweep

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # pydantic wants it from there
    from typing_extensions import TypedDict

__all__ = ["MANAGER_DOCUMENTS"]


class SmTables(TypedDict):
    """Forwarding tables and the proof of them."""

    wanted: str
    """The engines that were asked for."""
    engine: str
    """The one that made the tables."""
    reasons: list[str]
    """Why it is another."""
    unreachable: int | None
    """Pairs (CA, address of another device) without a path; null: not proved."""
    credit_loop: list[str]
    """Switch and egress port of each link of a loop of waiting buffers; empty: none can form."""


class SmRun(Sweep):
    """softib sm run --json: the last sweep of a manager that ended."""

    schema: Literal["softib/sm-run/1"]
    state: str
    """SMState (IBA 14.4.1)."""
    port: str
    sweeps: int
    sent: int
    """Requests of the last sweep, retries apart."""
    sets: int
    """Those that change something."""
    tables: SmTables | None
    """What the tables of the last sweep as master are worth."""


class PlannedRow(TypedDict):
    """One component, or one entry of a table."""

    what: str | int
    """Component, or index of the entry."""
    now: int
    then: int


class PlannedChange(TypedDict):
    """An attribute that would be another."""

    node: str
    node_guid: str
    attribute: str
    modifier: int
    """AttributeModifier (IBA 14.2.5)."""
    changes: list[PlannedRow]


class SmDryRun(TypedDict):
    """softib sm run --dry-run --json: what the manager would change."""

    schema: Literal["softib/sm-run/1"]
    port: str
    master: str | None
    """The subnet's master at that time."""
    changes: list[PlannedChange]
    sweep: Sweep


class SmRunPorts(TypedDict):
    """softib sm run A B --json: the last sweep of each manager, or what each would change."""

    schema: Literal["softib/sm-run/1"]
    ports: list[SmRun] | list[SmDryRun]
    failed: list[str]
    """Why managers ended that could not go on."""


class Alternative(TypedDict):
    """Another egress of a switch that lies on a shortest path too."""

    portnum: int
    to: str
    lids: int
    """End-port LIDs that the switch sends there."""


class Hop(TypedDict):
    """A node that sends the packet on."""

    node: str
    in_port: int | None
    """None at the node where the packet begins."""
    out_port: int
    to: str
    to_port: int
    vl: int
    lids: int
    """End-port LIDs that leave a switch through this port."""
    alternatives: list[Alternative]
    shorter: bool
    """A neighbour is nearer to the destination than the next hop."""


class Path(TypedDict):
    """softib path --json, softib sm explain --json"""

    schema: Literal["softib/path/1", "softib/sm-explain/1"]
    a: str
    b: str
    slid: int
    dlid: int
    engine: str
    sl: int
    sl_source: str
    hops: list[Hop]
    ended: str
    """Empty where the packet arrives, else where and why it does not."""
    shortest: int | None
    """Switches on a shortest path."""
    reasons: list[str]
    changes: list[str]


class SmConfigCheck(TypedDict):
    """softib sm check-config --json"""

    schema: Literal["softib/sm-config/1"]
    file: str
    kind: Literal[
        "opensm.conf",
        "torus-2QoS.conf",
        "partitions.conf",
        "qos-policy.conf",
        "prefix-routes.conf",
        "GUID file",
        "node-name-map",
    ]
    good: bool
    """OpenSM 3.3.23 takes the file as it is written."""
    opensm: list[str]
    """What it does not take so, and what it does instead."""
    softib: list[str]
    """What softib's manager does otherwise, or leaves out."""


class SmJob(TypedDict):
    """softib sm job --json"""

    schema: Literal["softib/sm-job/1"]
    tree: int
    streaming: bool
    top: str
    """The aggregation node where all ways meet."""
    nodes: list[str]
    """Aggregation nodes that take part."""
    hosts: list[str]
    """The one of each host, in their order."""


MANAGER_DOCUMENTS: dict[str, Any] = {
    "sm-run": SmRun | SmDryRun | SmRunPorts,
    "path": Path,
    "sm-explain": Path,
    "sm-job": SmJob,
    "sm-config": SmConfigCheck,
}
