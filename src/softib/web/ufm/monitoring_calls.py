"""UFM's calls about events and about the state of the service itself: ``app/``. Events, alarms and bad ports come from
the monitor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel

from softib.diags.finding import Severity
from softib.sm.config import SmConfig
from softib.tenants.model import CableEnd, guid_text
from softib.tenants.service import Health, TenantService
from softib.web.events import Event
from softib.web.rows import MOST, counters_of
from softib.web.served import Served
from softib.web.ufm.authority import account_of
from softib.web.ufm.fabric_calls import Reading
from softib.web.ufm.numbers import Whole

__all__ = ["add_monitoring_calls"]

RELEASE = "6.19.1"
"""The UFM release with this interface."""
KINDS = {"port": 328, "trap": 256, "node": 332, "sweep": 1310, "manager": 1311, "finding": 702, "source": 1312}
"""Maps kinds of the monitor's events to UFM's event ids."""
DOWN = {"port": 329, "node": 331}
"""Ids of events about items that disappeared."""
SEVERITY = {"info": "Info", "warning": "Warning", "error": "Critical"}
UNHEALTHY = 702
TELEMETRY = {
    "port_xmit_data": "PortXmitDataExtended",
    "port_rcv_data": "PortRcvDataExtended",
    "port_xmit_pkts": "PortXmitPktsExtended",
    "port_rcv_pkts": "PortRcvPktsExtended",
    "port_xmit_wait": "PortXmitWaitExtended",
    "symbol_error_counter": "SymbolErrorCounter",
    "link_downed_counter": "LinkDownedCounter",
    "link_error_recovery_counter": "LinkErrorRecoveryCounter",
    "port_rcv_errors": "PortRcvErrorsExtended",
    "port_xmit_discards": "PortXmitDiscardsExtended",
}
"""Maps each counter to its name in UFM's telemetry."""


class _External(BaseModel):
    event_id: Whole = 551
    description: str
    external_event_name: str = ""
    external_event_type: str = ""
    external_event_source: str = ""


def add_monitoring_calls(app: FastAPI, served: Served, service: TenantService, reading: Reading) -> None:
    """Add the calls to ``app``."""
    _add_application(app, served, service)
    _add_events(app, served, reading)
    _add_bad_ports(app, served, service, reading)


def _add_application(app: FastAPI, served: Served, service: TenantService) -> None:
    @app.get("/app/ufm_version")
    def version() -> dict[str, Any]:
        """The UFM release with this interface."""
        return {"ufm_release_version": RELEASE}

    @app.get("/app/smconf")
    def smconf() -> dict[str, Any]:
        """Return the manager's settings that clients read, without keys."""
        config = SmConfig()
        return {
            "subnet_prefix": f"{config.subnet_prefix:#018x}",
            "m_key": "0x0",
            "sm_key": f"{config.sm_key:#018x}",
            "sa_key": f"{config.sa_key:#018x}",
            "m_key_per_port": False,
        }

    @app.post("/app/tokens")
    def token(request: Request) -> dict[str, str]:
        """A token for /ufmRestV3, for the account of the request."""
        return {"access_token": service.accounts.new_token(account_of(request))}

    @app.get("/app/versioning")
    def versioning() -> dict[str, str]:
        """Numbers that change when a list changes, so that clients read it again."""
        now = served.now
        lists = ("switches", "ports", "links")
        return {
            **{f"{name}_version": str(now.version) for name in lists},
            "events_version": str(served.events.number),
            "alarms_version": str(now.version),
        }

    @app.get("/healthcheck")
    def healthcheck(response: Response) -> Health:
        """Whether changes become durable (otherwise 503), and reach the subnet manager and the ports."""
        health = service.health()
        response.status_code = 503 if health.status == "failed" else 200
        return health


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _event(number: int, event: Event, place: str) -> dict[str, Any]:
    down = event.kind in DOWN and event.severity != "info"
    return {
        "id": number,
        "type": str(DOWN[event.kind] if down else KINDS[event.kind]),
        "name": {"port": "Link is Down" if down else "Link is Up"}.get(event.kind, event.kind.capitalize()),
        "severity": SEVERITY[event.severity],
        "timestamp": _time(event.time_s),
        "object_name": place,
        "object_path": place,
        "category": "Fabric Notification",
        "description": event.text,
    }


def _add_events(app: FastAPI, served: Served, reading: Reading) -> None:
    def listed() -> list[dict[str, Any]]:
        events = served.events.all()
        names = (f"{e.guid.removeprefix('0x')}_{e.portnum}" if e.guid and e.portnum else e.node or "" for e in events)
        return [_event(len(events) - i, e, place) for i, (e, place) in enumerate(zip(events, names, strict=True))]

    @app.get("/app/events")
    def events() -> list[dict[str, Any]]:
        """Events of the monitor, the newest first."""
        return listed()

    @app.get("/app/events/{number}")
    def one_event(number: int) -> dict[str, Any]:
        """One event of the monitor."""
        event = next((e for e in listed() if e["id"] == number), None)
        if event is None:
            raise HTTPException(404, f"event {number} does not exist")
        return event

    @app.post("/app/events/external_event")
    def external(body: _External) -> dict[str, Any]:
        """Add an event of another program."""
        source = body.external_event_source or "external"
        served.events.add(Event(served.clock(), "source", "info", f"{source[:64]}: {body.description[:500]}"))
        return {}

    @app.get("/app/alarms")
    def alarms() -> list[dict[str, Any]]:
        """The current findings."""
        now = served.now
        return [
            {
                "id": i + 1,
                "type": str(UNHEALTHY),
                "name": f.code,
                "severity": "Critical" if f.severity.name == "ERROR" else "Warning",
                "timestamp": _time(now.time_s),
                "object_name": f"{f.where[0].guid:016x}_{f.where[0].portnum or 0}" if f.where else "",
                "object_path": str(f.where[0]) if f.where else "",
                "description": f.message,
                "reason": f.message,
                "count": 1,
            }
            for i, f in enumerate(now.findings)
        ]


def _peer(service: TenantService, end: CableEnd) -> dict[str, Any]:
    """Return the other end of an isolated port's cable as of the isolation, because the monitor may not have read
    it since."""
    ports = list(service.state.isolated.values())
    peer = next((one for port in ports if port.has(end.end) for one in port.ends if one.end != end.end), None)
    if peer is None:
        return {}
    return {
        "peer_node_guid": guid_text(peer.guid),
        "peer_node_name": peer.node_name,
        "peer_port_dname": str(peer.portnum),
    }


def _add_bad_ports(app: FastAPI, served: Served, service: TenantService, reading: Reading) -> None:
    def unhealthy_rows() -> list[dict[str, Any]]:
        """Return the ports that are bad by the rules over counters, and those that are disabled."""
        rows, out = reading.rows, list[dict[str, Any]]()
        for f in served.now.rules:
            for place in f.where if f.severity > Severity.INFO else ():
                row = None if place.portnum is None else rows.find(f"{place.guid:x}_{place.portnum}")
                if row is not None:
                    out.append(_unhealthy(f.code, f.message, with_peer(row)))
        names = {one["port"] for one in out}
        for row in rows.disabled.tolist():
            if rows.name(row) not in names:
                out.append(_unhealthy("isolated", "the port is disabled", with_peer(row)))
        disabled = {rows.cable_end(row).end for row in rows.disabled.tolist()}
        for name, port in list(service.state.isolated.items()):
            row = rows.find(name)
            if row is not None and disabled.isdisjoint(one.end for one in port.ends):
                why = f"isolated at {_time(port.at_s)}, but it is not disabled now; release or isolate it"
                out += [_unhealthy("isolated", why, rows.port(row))] * (rows.name(row) not in names)
        return out

    def with_peer(row: int) -> dict[str, Any]:
        """Return a port with the other end of its cable: while the link is down, as last read or as isolated."""
        rows, seen = reading.rows, reading.seen
        document, kept = rows.port(row), seen.find(rows.name(row))
        before = {} if kept is None else seen.port(kept)
        document |= {key: text for key, text in before.items() if key.startswith("peer")}
        return document if "peer" in document else document | _peer(service, rows.cable_end(row))

    def _unhealthy(code: str, message: str, port: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": port["name"],
            "GUID": port["guid"],
            "port": port["name"],
            "PortNumber": port["number"],
            "NodeDesc": port["node_description"],
            "PeerGUID": port.get("peer_node_guid", ""),
            "PeerPortDname": port.get("peer_port_dname", ""),
            "PeerNodeDesc": port.get("peer_node_name", ""),
            "Condition": code.upper(),
            "Cond": code.upper(),
            "StatusTime": _time(served.now.time_s),
            "description": message,
            "state": port["logical_state"],
        }

    @app.get("/app/unhealthy_ports")
    def unhealthy() -> list[dict[str, Any]]:
        """Ports that are bad by the monitor's rules, and ports that are disabled."""
        return unhealthy_rows()

    @app.get("/resources/isolated_ports")
    def isolated() -> list[dict[str, Any]]:
        """Return the ports among them that are cut off from the subnet because their links are down."""
        return [one for one in unhealthy_rows() if one["state"] == "Down"]

    @app.get("/monitoring/session/0/data")
    def telemetry() -> dict[str, Any]:
        """Return the counters of every port from the last round."""
        rows, now = reading.rows, served.now
        f, devices = now.fabric, dict[str, Any]()
        for first in range(0, len(rows.ports), MOST):
            chosen = rows.ports[first : first + MOST]
            counters = counters_of(f, now.reading, chosen, 0, MOST)["rows"]
            for row, values in zip(chosen.tolist(), counters, strict=True):
                device = devices.setdefault(guid_text(int(f.node_guid[f.port_node[row]])), {"Ports": {}})
                statistics = {label: values[name] for name, label in TELEMETRY.items()}
                device["Ports"][str(int(f.port_num[row]))] = {"statistics": statistics}
        return {_time(now.time_s): {"Fabric": devices}}
