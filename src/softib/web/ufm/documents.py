"""The OpenAPI document of UFM's interface: the answer of each call, as in UFM's reference and its clients.

Answers are built as plain mappings, for speed, because a page may have 100,000 rows; a test compares them with this
document.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from fastapi import FastAPI
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from softib.tenants.service import Health

__all__ = ["describe_answers", "describe_errors"]

Membership = Literal["full", "limited"]
Severity = Literal["Info", "Warning", "Critical"]


class Empty(TypedDict):
    """An empty answer: the change is durable."""


class Qos(TypedDict):
    """``rate_limit`` 2.5: no rate is set; ``group_rate``: rate of the partition's IPoIB group, in Gb/s."""

    mtu_limit: int
    service_level: int
    rate_limit: float
    group_rate: NotRequired[float]


class PkeyGuid(TypedDict):
    guid: str
    index0: bool
    membership: Membership
    programmed: bool


class Pkey(TypedDict, total=False):
    """One partition; empty if no partition has the P_Key."""

    partition: str
    ip_over_ib: bool
    qos_conf: Qos
    guids: list[PkeyGuid]
    membership: Membership


class Port(TypedDict):
    name: str
    guid: str
    number: int
    dname: str
    node_description: str
    systemID: str
    system_name: str
    type: str
    lid: int
    logical_state: Literal["Down", "Initialize", "Armed", "Active"]
    physical_state: str
    mtu: int
    severity: Severity
    peer: NotRequired[str]
    peer_guid: NotRequired[str]
    peer_node_guid: NotRequired[str]
    peer_node_name: NotRequired[str]
    peer_port_dname: NotRequired[str]


class System(TypedDict):
    name: str
    guid: str
    system_guid: str
    system_name: str
    type: str
    state: str
    vendor: str
    fw_version: list[int] | None
    total_alarms: int
    ports: list[str] | list[Port]


class Link(TypedDict):
    name: str
    source_guid: str
    source_port: str
    source_port_dname: str
    source_port_node_description: str
    destination_guid: str
    destination_port: str
    destination_port_dname: str
    destination_port_node_description: str
    severity: Severity


class UfmVersion(TypedDict):
    ufm_release_version: str


class SmConf(TypedDict):
    subnet_prefix: str
    m_key: str
    sm_key: str
    sa_key: str
    m_key_per_port: bool


class AccessToken(TypedDict):
    access_token: str


class Versioning(TypedDict):
    switches_version: str
    ports_version: str
    links_version: str
    events_version: str
    alarms_version: str


class UfmEvent(TypedDict):
    id: int
    type: str
    name: str
    severity: Severity
    timestamp: str
    object_name: str
    object_path: str
    category: str
    description: str


class Alarm(TypedDict):
    id: int
    type: str
    name: str
    severity: Severity
    timestamp: str
    object_name: str
    object_path: str
    description: str
    reason: str
    count: int


class UnhealthyPort(TypedDict):
    id: str
    GUID: str
    port: str
    PortNumber: int
    NodeDesc: str
    PeerGUID: str
    PeerPortDname: str
    PeerNodeDesc: str
    Condition: str
    Cond: str
    StatusTime: str
    description: str
    state: str


class Statistics(TypedDict):
    statistics: dict[str, int | None]


class Device(TypedDict):
    Ports: dict[str, Statistics]


class Telemetry(TypedDict):
    """Device by NodeGUID, its ports by number."""

    Fabric: dict[str, Device]


class Label(TypedDict):
    port_id: str
    device_name: str
    device_type: str
    level: str
    node_desc: str
    peer_level: str
    status: str


class Snapshot(TypedDict):
    hash: str
    labels: list[Label]


class SyslogSetting(TypedDict):
    active: bool
    destination: str
    level: Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"]
    ufm_log: bool
    events_log: bool


class UfmJob(TypedDict):
    ID: str
    Status: Literal["Running", "Completed", "Completed With Errors"]
    Progress: int
    Operation: str
    Owner: str
    CreationTime: str
    LastUpdated: str
    Summary: str
    RelatedObjects: str


class ReportId(TypedDict):
    report_id: str


class ReportRow(TypedDict):
    object: str
    summary: str
    severity: NotRequired[str]
    kind: NotRequired[str]


class Report(TypedDict):
    """``summary``: counts of Fabric_Health, or status and problem of UFM_Health."""

    report: Literal["Fabric_Health", "UFM_Health"]
    timestamp: str
    summary: dict[str, int | str]
    sections: dict[str, list[ReportRow]]


class Problem(TypedDict):
    """``failed`` and ``changed`` of a change of ports: the reason for each port that did not
    change, and the ports that did."""

    error: str
    failed: NotRequired[dict[str, str]]
    changed: NotRequired[list[str]]


PKEY = "/resources/pkeys/{pkey}"
ANSWERS: dict[tuple[str, str], Any] = {
    ("get", "/resources/pkeys"): dict[str, Pkey],
    ("post", "/resources/pkeys"): Empty,
    ("put", "/resources/pkeys"): Empty,
    ("get", PKEY): Pkey,
    ("delete", PKEY): Empty,
    ("post", "/resources/pkeys/add"): Empty,
    ("put", "/resources/pkeys/qos_conf"): Empty,
    ("post", "/resources/pkeys/hosts"): Empty,
    ("post", "/actions/remove_guids_from_pkey"): Empty,
    ("delete", f"{PKEY}/guids/{{guids}}"): Empty,
    ("delete", f"{PKEY}/hosts/{{hosts}}"): Empty,
    ("get", "/resources/ports"): list[Port],
    ("get", "/resources/ports/{names}"): list[Port],
    ("get", "/resources/systems"): list[System],
    ("get", "/resources/systems/{guid}"): list[System],
    ("get", "/resources/links"): list[Link],
    ("get", "/app/ufm_version"): UfmVersion,
    ("get", "/app/smconf"): SmConf,
    ("post", "/app/tokens"): AccessToken,
    ("get", "/app/versioning"): Versioning,
    ("get", "/healthcheck"): Health,
    ("get", "/app/events"): list[UfmEvent],
    ("get", "/app/events/{number}"): UfmEvent,
    ("post", "/app/events/external_event"): Empty,
    ("get", "/app/alarms"): list[Alarm],
    ("get", "/app/unhealthy_ports"): list[UnhealthyPort],
    ("put", "/app/unhealthy_ports"): Empty,
    ("get", "/resources/isolated_ports"): list[UnhealthyPort],
    ("get", "/monitoring/session/0/data"): dict[str, Telemetry],
    ("get", "/app/fabric_snapshot"): Snapshot,
    ("get", "/app/syslog"): SyslogSetting,
    ("put", "/app/syslog"): Empty,
    ("get", "/jobs"): list[UfmJob],
    ("get", "/jobs/{number}"): UfmJob,
    ("post", "/reports/{kind}"): ReportId,
    ("get", "/reports/{number}"): Report,
}
"""Method and path → the answer on success. The answers of other calls (a text, or an aggregation tree) are declared
with their functions."""
ERRORS = {
    "400": "the request is not possible",
    "401": "no account has these credentials",
    "403": "the account may not do that",
    "404": "the object does not exist",
    "409": "the change contradicts the present state",
    "413": "the body is too large",
    "501": "UFM has this call or action, this service has not",
    "503": "the database, the manager or a port takes no change now",
}


def describe_answers(app: FastAPI) -> None:
    """Add the answers on success to the document of ``app``."""
    document = app.openapi()
    schemas = document["components"]["schemas"]
    for (method, path), answer in ANSWERS.items():
        schema = TypeAdapter(answer).json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        if "title" in schema and schema["type"] == "object":
            schemas[schema["title"]], schema = schema, {"$ref": f"#/components/schemas/{schema['title']}"}
        responses = document["paths"][path][method]["responses"]
        status = next(code for code in responses if code.startswith("2"))
        responses[status]["content"] = {"application/json": {"schema": schema}}


def describe_errors(app: FastAPI) -> None:
    """Add the answers of errors to the document of ``app``, and the ways in which a client identifies itself."""
    document = app.openapi()
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = TypeAdapter(Problem).json_schema()
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"] |= {code: {"description": text, "content": content} for code, text in ERRORS.items()}
    components["securitySchemes"] = {
        "name and password": {"type": "http", "scheme": "basic"},
        "token": {"type": "http", "scheme": "bearer"},
    }
    document["security"] = [{"name and password": []}, {"token": []}]
