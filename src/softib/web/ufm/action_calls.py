"""UFM's calls that act on devices: ports that are taken out of use and back, and ``actions``. A port is isolated by
disabling the switch's end of its cable. Each act is a revision without rows: the log names who did it, and clients
follow it as a job."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field

from softib.errors import InputError, PeerError
from softib.iba.constants import PhysState
from softib.monitor.isolation.ports import cut_off, switched
from softib.tenants.changes import Refused
from softib.tenants.service import TenantService
from softib.web.events import Event
from softib.web.remembered import End
from softib.web.served import Served
from softib.web.ufm.fabric_calls import Reading
from softib.web.ufm.partitions import make, operator_of

__all__ = ["add_action_calls"]

LOG = logging.getLogger("softib.tenants")
Names = Annotated[list[str], Field(min_length=1, max_length=1000)]
ACTS = {"mark_device_unhealthy": True, "mark_device_healthy": False, "reset": None}
"""Maps actions to whether they isolate; None: both, one after the other."""


class _Ports(BaseModel):
    ports: Names
    ports_policy: Literal["HEALTHY", "UNHEALTHY"]
    action: Literal["isolate", "no_discover"] | None = None


class _Params(BaseModel):
    port_id: str | None = None
    action: str | None = None


class _Action(BaseModel):
    action: str
    object_ids: Names
    object_type: str = "System"
    params: _Params = _Params()


def add_action_calls(app: FastAPI, served: Served, service: TenantService, reading: Reading) -> None:
    """Enter the calls."""

    def act(request: Request, action: str, names: list[str], isolates: bool | None, away: list[str]) -> int:
        account = operator_of(request)
        cables = [_ends(reading, name) for name in names]
        states = (PhysState.DISABLED, PhysState.POLLING) if isolates is None else (_STATE[isolates],)
        if PhysState.DISABLED in states:
            with service.wire() as wire:
                if why := cut_off(wire, cables):
                    raise Refused(why)
        failed: dict[str, str] = {}
        for state in states:
            failed |= _switch_all(service, dict(zip(names, cables, strict=True)), failed.keys(), state, away)
        changed = [name for name in names if name not in failed]
        text = f"{action} of {_listed(changed)}" if changed else action
        if failed:
            LOG.warning("%s: %s", action, "; ".join(f"{name}: {why}" for name, why in failed.items()))
            text += f"; failed at {_listed(list(failed))}"
        served.events.add(Event(served.clock(), "source", "info", f"{account.name}: {text}"))
        revision = make(service, request, action, lambda draft: text).revision
        if failed:
            raise PartlyDone(action, changed, failed)
        return revision

    @app.put("/app/unhealthy_ports")
    def put_health(request: Request, body: _Ports) -> dict[str, Any]:
        """Take ports out of use (``UNHEALTHY``, disabled at the switch), or back (``HEALTHY``)."""
        if body.action == "no_discover":
            raise HTTPException(501, "ports cannot be excluded from discovery; use action isolate, which disables them")
        isolates = body.ports_policy == "UNHEALTHY"
        act(request, "isolate ports" if isolates else "release ports", body.ports, isolates, [])
        return {}

    @app.post("/actions", status_code=202)
    def post_action(request: Request, response: Response, body: _Action) -> str:
        """Isolate or release all ports of switches, or reset a port; the answer names the job."""
        if body.action not in ACTS:
            raise HTTPException(501, f"action {body.action[:64]!r} does not exist here; use {', '.join(ACTS)}")
        if body.action == "reset":
            if body.params.port_id is None:
                raise InputError("reset needs params.port_id, for example 0002c903000e0b72_1")
            names, away = [body.params.port_id], list[str]()
        else:
            systems = [_switch(reading, guid) for guid in body.object_ids]
            names = [name for one in systems for name in _cabled(reading, one)]
            away = [one["guid"] for one in systems]
        number = act(request, body.action, names, ACTS[body.action], away)
        prefix = request.scope["state"]["prefix"]
        response.headers["Location"] = f"{prefix}/jobs/{number}"
        return f"{prefix}/jobs/{number}"


class PartlyDone(PeerError):
    """Some ports did not change: ``failed`` has the reason of each, ``changed`` those that did."""

    def __init__(self, action: str, changed: list[str], failed: dict[str, str]):
        reasons = [f"{name}: {why}" for name, why in failed.items()]
        more = f"; and {len(reasons) - 4} others" if reasons[4:] else ""
        done = f"; changed: {_listed(changed)}" if changed else "; no port was changed"
        super().__init__(f"{action}: {'; '.join(reasons[:4])}{more}{done}")
        self.details = {"failed": failed, "changed": changed}


def _switch_all(
    service: TenantService, cables: dict[str, list[End]], leaves: Collection[str], state: PhysState, away: list[str]
) -> dict[str, str]:
    """Disable or enable the cables of ports, except those that it ``leaves``. Returns the reason of each that did not
    change."""
    names = [name for name in cables if name not in leaves]
    try:
        with service.wire() as wire:
            ends = [cables[name] for name in names]
            results = switched(wire, ends, state, frozenset(int(guid, 16) for guid in away))
    except PeerError as error:
        return dict.fromkeys(names, f"{error}; its state is unknown")
    return {name: why for name, (_, why) in zip(names, results, strict=True) if why}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} others" if names[4:] else "")


_STATE = {True: PhysState.DISABLED, False: PhysState.POLLING}


def _ends(reading: Reading, name: str) -> list[End]:
    """Return both ends of the cable in a port, also of one that is down."""
    rows = reading.seen
    row = rows.find(name)
    if row is None:
        raise HTTPException(404, f"port {name[:64]!r} does not exist; use GUID_NUMBER, for example 0002c903000e0b72_1")
    f = rows.fabric
    return [(int(f.node_guid[f.port_node[r]]), int(f.port_num[r])) for r in (row, rows.peer(row)) if r >= 0]


def _switch(reading: Reading, guid: str) -> dict[str, Any]:
    node = reading.seen.find_system(guid)
    system = None if node is None else reading.seen.system(node)
    if system is None or system["type"] != "switch":
        raise HTTPException(404, f"switch {guid[:64]!r} does not exist; use the GUID of a system of type switch")
    return system


def _cabled(reading: Reading, system: dict[str, Any]) -> list[str]:
    """Return names of the system's ports with a cable to another system; an aggregation node is
    part of its switch."""
    rows, out = reading.seen, []
    for name in system["ports"]:
        row = rows.find(name)
        peer = -1 if row is None else rows.peer(row)
        if peer >= 0 and rows.port(peer)["systemID"] != system["system_guid"]:
            out.append(name)
    return out
