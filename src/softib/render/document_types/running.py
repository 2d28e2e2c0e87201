"""What the documents of running fabrics hold (``status``, ``fault``, ``sm``), as
:mod:`softib.render.document_types.common` has the others."""

from __future__ import annotations

import sys
from typing import Any, Literal

if sys.version_info >= (3, 12):
    from typing import NotRequired, TypedDict
else:  # pydantic wants it from there
    from typing import NotRequired

    from typing_extensions import TypedDict

__all__ = ["RUNNING_DOCUMENTS"]


class PortStates(TypedDict):
    """Linked ports by PortState (IBA 14.2.5.6)."""

    down: int
    init: int
    armed: int
    active: int


class Sweep(TypedDict):
    """What a sweep found and took."""

    nodes: int
    switches: int
    cas: int
    links: int
    lids: int
    mads: dict[str, int]
    """Method and attribute → requests sent, retries apart."""
    retries: int
    timeouts: int
    strays: int
    """Answers that nobody waited for."""
    phase_s: dict[str, float]
    """Phase → seconds."""
    tables_change: str
    """Can a credit loop arise while forwarding tables change? acyclic, loop, loops-by-itself,
    unchanged; unknown-sls, sl2vl-changes, too-large, unknown-tables: nothing is known."""
    notes: list[str]
    problems: list[str]


class LastSweep(Sweep):
    """The last sweep of the internal manager."""

    sent: int
    sets: int
    refused: dict[str, int]
    """Method and attribute → requests that a node answered with an error."""
    not_active: int
    """Ports that did not become ACTIVE."""


class Manager(TypedDict):
    """The subnet manager; all but `kind` only of the internal one."""

    kind: Literal["internal", "external", "none"]
    engine: NotRequired[str]
    state: NotRequired[str]
    """SMState (IBA 14.4.1), or FAILED."""
    phase: NotRequired[str]
    """What it is doing; empty while it rests."""
    sweeps: NotRequired[int]
    node: NotRequired[str]
    problems: NotRequired[list[str]]
    engine_used: NotRequired[str]
    """The engine of the list that made the tables; empty before."""
    report: NotRequired[LastSweep]
    sa: NotRequired[Administration]


class Wait(TypedDict):
    """How long queries of others waited for their answer."""

    buckets: dict[str, int]
    """Bound in s → queries that waited no longer (cumulated; `inf`: all)."""
    sum_s: float
    oldest_s: float
    """How long the oldest query without an answer has waited; 0 where none waits."""


class Administration(TypedDict):
    """Queries of the subnet administration by others: since it began, answered BUSY, and waiting
    now."""

    requests: int
    busy: int
    waiting: int
    wait: Wait


class Client(TypedDict):
    """A program on a port."""

    client: int
    pid: int
    node: str
    portnum: int
    sm: bool
    """It is a subnet manager."""
    waiting: int
    """MADs that it has not read."""


class Verbs(TypedDict):
    """What programs that use RDMA devices hold."""

    programs: int
    numbers: int
    """QPs and XRC SRQs."""
    members: int
    keys: int
    chunks: int
    octets: int


class Mads(TypedDict):
    """MADs since the fabric began to run."""

    answered: int
    forwarded: int
    timed_out: int


class FabricStatus(TypedDict):
    """A running fabric."""

    name: str
    pid: int
    source: str
    ready: bool
    ready_s: float | None
    uptime_s: float
    nodes: int
    switches: int
    cas: int
    links: int
    port_states: PortStates
    sm: Manager
    clients: list[Client]
    verbs: Verbs
    mads: Mads
    traps: dict[str, int]
    kernels: str
    bugs: int
    log: str
    pace: bool
    """What programs send takes the wire's time (softib up --pace)."""
    epoch: int
    shared_fabric: str
    sockname: str
    version: str
    """The softib that runs it."""


class Status(TypedDict):
    """softib status --json; softib up --json, of the one fabric as soon as it is ready"""

    schema: Literal["softib/status/1"]
    fabrics: list[FabricStatus]


class NotStopped(TypedDict):
    """A fabric that could not be stopped, and why."""

    name: str
    problem: str


class Down(TypedDict):
    """softib down --json"""

    schema: Literal["softib/down/1"]
    stopped: list[str]
    failed: list[NotStopped]


class Listening(TypedDict):
    """softib exporter --json, softib serve --json: one line as soon as it answers"""

    schema: Literal["softib/listening/1"]
    verb: Literal["exporter", "serve"]
    source: str
    url: str
    """With the token in it, where clients need one."""
    pid: int


class Forget(TypedDict):
    """softib exporter forget --json"""

    schema: Literal["softib/forget/1"]
    ports: list[str]


class TopPort(TypedDict):
    """A port in the last interval."""

    port: str
    peer: str
    """Empty: none."""
    sent_gbps: float
    received_gbps: float
    utilization: float
    waiting: float
    """Share of the time in which data waited for credits."""
    errors: dict[str, int]
    """Counters that rose, and by how much."""


class TopJob(TypedDict):
    """A job in the last interval."""

    job: str
    hosts: int
    seen: int
    sent_gbps: float
    received_gbps: float
    waiting: float
    errors: int


class TopManager(TypedDict):
    """A subnet manager."""

    guid: str
    state: str
    priority: int
    answers: bool
    stalled: bool


class Top(TypedDict):
    """softib top --json: the last of --rounds N"""

    schema: Literal["softib/top/1"]
    source: str
    order: Literal["busy", "waiting", "errors", "jobs"]
    round_s: float
    mads: int
    ports_read: int
    ports_answered: int
    silent: int
    """Devices that did not answer."""
    ports: list[TopPort]
    """Every port that did something, by `order` (of jobs: busy ports first)."""
    jobs: list[TopJob] | None
    """Null without --jobs."""
    managers: list[TopManager]


class ExpectedErrors(TypedDict):
    """What the bit errors of a link lead to, at the end that receives more of them."""

    raw_ber: float
    fec: str
    """The code that corrects them, such as `RS(544,514)`; empty: none works at this speed."""
    corrected_codewords_per_s: float
    lost_codewords_per_s: float
    symbol_errors_per_s: float
    """Lost codewords; without a code, wrong symbols."""
    post_fec_ber: float


class Fault(TypedDict):
    """softib fault KIND --json: the link or node that was changed, or the faults that there are."""

    schema: Literal["softib/fault/1"]
    kind: NotRequired[str]
    ports: NotRequired[list[str]]
    state: NotRequired[str]
    phys_state: NotRequired[str]
    errors: NotRequired[ExpectedErrors]
    """Of ber, attenuation and weak-laser."""
    node: NotRequired[str]
    power: NotRequired[bool]
    sys_guid: NotRequired[str]
    locations: NotRequired[list[dict[str, Any]]]
    """Of several places: each link or node that was changed, as one alone is."""
    faults: NotRequired[list[dict[str, Any]]]
    """Each with `kind`, `where`, `age_s` and its options."""
    cleared: NotRequired[list[dict[str, Any]]]


class SmState(Manager):
    """softib sm sweep --json, softib sm reload --json"""

    schema: Literal["softib/sm/1"]


RUNNING_DOCUMENTS: dict[str, Any] = {
    "status": Status,
    "down": Down,
    "listening": Listening,
    "forget": Forget,
    "top": Top,
    "fault": Fault,
    "sm": SmState,
}
