"""What each document of ``--json`` holds, as types: the source of docs/schemas.

Only ``docs/make_schemas.py`` and tests import this module and its likes (``*_types``). A key that
may be absent is ``NotRequired``; ``None`` stands for what is not known or was not asked for. Rates
are in Gb/s, times in the unit that the name ends with.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # pydantic wants it from there
    from typing_extensions import TypedDict

__all__ = ["DOCUMENTS"]

Severity = Literal["info", "warning", "error"]


class Problem(TypedDict):
    """A record that could not be read."""

    file: str
    line: int
    """From 1; 0 for the file as a whole."""
    reason: str


class Counts(TypedDict):
    """Name and sizes of a fabric; null where the source does not say."""

    name: str
    switches: int | None
    cas: int | None
    """Channel adapters, SHARP aggregation nodes among them."""
    sharp_nodes: int | None
    links: int | None
    """Cables, also those of which one end is unknown."""
    system_links: int | None
    """Cables between systems of a .topo file."""


class Location(TypedDict):
    """A node, or one of its ports."""

    node: str
    guid: str
    """NodeGUID in hex."""
    portnum: int | None


class Finding(TypedDict):
    """One thing that somebody should know."""

    code: str
    """As docs/findings.md lists them."""
    severity: Severity
    where: list[Location]
    message: str
    evidence: dict[str, Any]
    """What the check measured; keys depend on the code."""
    advice: str


class LeafRatio(TypedDict):
    """A leaf and its oversubscription: Gb/s towards hosts and upwards."""

    leaf: str
    host_gbps: float
    up_gbps: float
    ratio: float | None
    """Rate towards hosts by rate upwards; null for a leaf without uplinks."""


class NarrowestPart(TypedDict):
    """Hosts behind few cables: ``hosts`` of ``of``, what their cables carry in Gb/s, and that in
    percent of what the hosts can send."""

    name: str
    hosts: int
    of: int
    gbps: float | None
    percent: float


class Structure(TypedDict):
    """The recognised topology."""

    kind: str
    levels: int | None
    tiers: dict[str, int]
    """Switches by tier, 1 = those with hosts."""
    untiered_switches: int
    rails: int | None
    units: int | None
    dims: list[int] | None
    groups: int | None
    leaves: int
    spines: int
    oversubscription: list[LeafRatio]
    oversubscription_worst: float | None
    bisection_gbps: float | None
    bisection_percent: float | None
    bisection_full_gbps: float | None
    bisection_how: str
    bisection_exact: bool
    narrowest_part: NarrowestPart | None
    notes: list[str]


class JudgedTables(TypedDict):
    """The forwarding tables that findings about routes are about."""

    engine: str
    tables: str
    """The engine that made them, where `engine` fell back to it."""
    origin: str


class PlannedCable(TypedDict):
    """A cable that is not as planned."""

    status: str
    file: str
    line: int
    planned: list[str]
    found: list[str]
    note: str
    reason: str
    also: list[str]


class Plan(TypedDict):
    """What became of the cabling plan."""

    files: list[str]
    rows: dict[str, int]
    cables: int
    counts: dict[str, int]
    """Cables by status."""
    reasons: dict[str, int]
    """Cables that were not found by name, by why."""
    table: list[PlannedCable]


class Check(TypedDict):
    """softib check --json"""

    schema: Literal["softib/check/1"]
    source: str
    format: str
    fabric: Counts
    findings: list[Finding]
    problems: list[Problem]
    structure: Structure | None
    routing: JudgedTables | None
    notes: list[str]
    """Steps that could not run, and why."""
    source_notes: list[str]
    """What softib does not use of a source that is in order."""
    plan: Plan | None


class Change(TypedDict):
    """One thing that differs between two fabrics; ``before`` and ``after`` depend on its kind."""

    kind: str
    where: list[str]
    before: Any
    after: Any
    message: str


class Diff(TypedDict):
    """softib diff --json"""

    schema: Literal["softib/diff/1"]
    a: str
    b: str
    equal: bool
    changes: list[Change]
    problems: list[Problem]


class Wrote(TypedDict):
    """How much a file has that was written."""

    switches: int
    cas: int
    links: int


class Convert(TypedDict):
    """softib convert --json"""

    schema: Literal["softib/convert/1"]
    dest: str
    read_as: str
    wrote: Wrote
    notes: list[str]
    """What was changed so that the format's readers can load it."""
    problems: list[Problem]


class ListHeading(TypedDict):
    """A heading of a cabling list; ``taken_for``: empty where its column is not used."""

    heading: str
    taken_for: str


class ListSheet(TypedDict):
    """A sheet of a cabling list; ``line`` of its headings, 0 where it has none."""

    sheet: str
    line: int
    headings: list[ListHeading]
    rows: int
    filled_down: int
    """Devices, racks and units that were filled down from merged cells."""


class ConvertExplain(TypedDict):
    """softib convert --explain --json"""

    schema: Literal["softib/convert-explain/1"]
    file: str
    sheets: list[ListSheet]
    cables: int
    problems: list[Problem]
    why: str
    """Why no row is a cable; else empty."""


class Parameter(TypedDict):
    """A parameter of a kind of topology."""

    name: str
    form: str
    default: Any
    required: bool
    doc: str


class Kind(TypedDict):
    """A kind of topology that softib generates; ``source``: the paper."""

    kind: str
    doc: str
    source: str
    parameters: list[Parameter]


class Generate(TypedDict):
    """softib generate --list --json"""

    schema: Literal["softib/generate/1"]
    kinds: list[Kind]


class Lack(TypedDict):
    """One thing that a machine needs for some part of softib; ``mend``: what would install it."""

    name: str
    state: Literal["ok", "absent", "missing"]
    what: str
    mend: str


class Doctor(TypedDict):
    """softib doctor --json"""

    schema: Literal["softib/doctor/1"]
    checks: list[Lack]


class Compile(TypedDict):
    """softib compile --json"""

    schema: Literal["softib/compile/1"]
    kernels: int
    """Compiled kernels in the folder now."""
    folder: str
    seconds: float


DOCUMENTS: dict[str, Any] = {
    "check": Check,
    "diff": Diff,
    "convert": Convert,
    "convert-explain": ConvertExplain,
    "generate": Generate,
    "doctor": Doctor,
    "compile": Compile,
}
"""Document → its type. ``route``, ``report`` and those of running fabrics are in modules of their
own."""
