"""UFM's calls that act on devices: isolating and releasing ports, and ``actions``. A port is isolated by disabling the
switch's end of its cable.

Each action is a revision, so the log names the account, and clients can follow the action as a job. The ends of an
isolated port's cable are entered in the database before the port is disabled, and are removed when it is enabled. So
the port can be released after a restart of the service, even if the new process never read the device at the other end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field

from softib.errors import InputError, PeerError
from softib.iba.constants import PhysState
from softib.monitor.isolation.ports import cut_off, switched
from softib.tenants import changes
from softib.tenants.changes import Change, Refused
from softib.tenants.model import CableEnd, IsolatedPort, guid_text
from softib.tenants.service import TenantService
from softib.web.events import Event
from softib.web.served import Served
from softib.web.ufm.authority import account_of, id_of, operator_of, owner_of, submit
from softib.web.ufm.fabric_calls import Reading
from softib.web.ufm.fabric_rows import guid_of

__all__ = ["add_action_calls"]

LOG = logging.getLogger("softib.tenants")
Names = Annotated[list[str], Field(min_length=1, max_length=1000)]
ACTS = {"mark_device_unhealthy": True, "mark_device_healthy": False, "reset": None}
"""Whether each action isolates ports (True) or releases them (False); None: it isolates and then releases them."""
UNKNOWN = "its state is unknown"
"""End of the message about a port whose state may have changed."""


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
    """Add the calls to ``app``."""

    acting = threading.Lock()

    def act(request: Request, action: str, names: list[str], isolates: bool | None, away: list[str]) -> int:
        """Act on ports, one request after the other, because the row of a port and its state change together."""
        operator_of(request)
        with acting:
            return act_alone(request, action, names, isolates, away)

    def act_alone(request: Request, action: str, names: list[str], isolates: bool | None, away: list[str]) -> int:
        account, request_id = account_of(request), id_of(request)
        cables = {name: _ends(reading, service, name) for name in names}

        def enter(text: str, ports: Mapping[str, IsolatedPort | None], repeats: bool) -> int:
            change: Change = lambda draft: changes.put_isolated(draft, ports, text)
            return submit(service, request, action, change, repeats=repeats).result().revision

        if request_id is not None and service.store.has_request(owner_of(account), request_id):
            return enter("", {}, True)
        states = (PhysState.DISABLED, PhysState.POLLING) if isolates is None else (_STATE[isolates],)
        revision, entered = None, dict[str, IsolatedPort]()
        if PhysState.DISABLED in states:
            with service.wire() as wire:
                if why := cut_off(wire, [[one.end for one in ends] for ends in cables.values()]):
                    raise Refused(why)
            at_s, isolated = service.clock(), list(service.state.isolated.values())
            isolated_on = lambda ends: any(port.has(one.end) for port in isolated for one in ends)
            entered = {name: IsolatedPort(at_s, ends) for name, ends in cables.items() if not isolated_on(ends)}
            revision = enter(f"{action} of {_listed(names)}{' begins' * (isolates is None)}", entered, True)
        failed, done = dict[str, str](), set[str]()
        for state in states:
            left = {name: ends for name, ends in cables.items() if name not in failed}
            reasons = _switch_all(service, left, state, away)
            failed |= reasons
            if state == PhysState.POLLING:
                done |= left.keys() - reasons.keys()
            else:
                done |= {name for name in reasons.keys() & entered.keys() if not reasons[name].endswith(UNKNOWN)}
        changed = [name for name in names if name not in failed]
        text = f"{action} of {_listed(changed)}" if changed else action
        if failed:
            LOG.warning("%s: %s", action, "; ".join(f"{name}: {why}" for name, why in failed.items()))
            text += f"; failed at {_listed(list(failed))}"
        ends = {one.end for name in done for one in cables[name]}
        in_use = {name: None for name, port in service.state.isolated.items() if any(port.has(end) for end in ends)}
        if revision is None or in_use or failed:
            number = enter(text, in_use, revision is None)
            revision = number if revision is None else revision
        served.events.add(Event(served.clock(), "source", "info", f"{account.name}: {text}"))
        served.reread()
        if failed:
            raise PartlyDone(action, changed, failed)
        return revision

    @app.put("/app/unhealthy_ports")
    def put_health(request: Request, body: _Ports) -> dict[str, Any]:
        """Isolate ports (``UNHEALTHY``: disabled at the switch) or release them (``HEALTHY``)."""
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
            switches = [_switch(reading, service, guid) for guid in body.object_ids]
            names = [name for _, ports in switches for name in ports]
            away = [guid for guid, _ in switches]
        number = act(request, body.action, names, ACTS[body.action], away)
        prefix = request.scope["state"]["prefix"]
        response.headers["Location"] = f"{prefix}/jobs/{number}"
        return f"{prefix}/jobs/{number}"


class PartlyDone(PeerError):
    """Some ports did not change: ``failed`` has the reason for each, ``changed`` the ports that did."""

    def __init__(self, action: str, changed: list[str], failed: dict[str, str]):
        reasons = [f"{name}: {why}" for name, why in failed.items()]
        more = f"; and {len(reasons) - 4} others" if reasons[4:] else ""
        done = f"; changed: {_listed(changed)}" if changed else "; no port was changed"
        super().__init__(f"{action}: {'; '.join(reasons[:4])}{more}{done}")
        self.details = {"failed": failed, "changed": changed}


def _switch_all(
    service: TenantService, cables: Mapping[str, tuple[CableEnd, ...]], state: PhysState, away: list[str]
) -> dict[str, str]:
    """Disable or enable the cables of ports. Returns the reason for each port that did not change."""
    try:
        with service.wire() as wire:
            ends = [[one.end for one in both] for both in cables.values()]
            results = switched(wire, ends, state, frozenset(int(guid, 16) for guid in away))
    except PeerError as error:
        return dict.fromkeys(cables, f"{error}; {UNKNOWN}")
    return {name: why for name, (_, why) in zip(cables, results, strict=True) if why}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} others" if names[4:] else "")


_STATE = {True: PhysState.DISABLED, False: PhysState.POLLING}


def _ends(reading: Reading, service: TenantService, name: str) -> tuple[CableEnd, ...]:
    """Return both ends of the cable of a port, even if the port is down, or was isolated and has not been read
    since."""
    rows = reading.seen
    row = rows.find(name)
    ends = () if row is None else tuple(rows.cable_end(r) for r in (row, rows.peer(row)) if r >= 0)
    if len(ends) < 2:
        isolated = list(service.state.isolated.values())
        holds = lambda one: (not ends and one.has_name(name)) or (ends and one.end == ends[0].end)
        ends = next((port.ends for port in isolated if any(map(holds, port.ends))), ends)
    if not ends:
        raise HTTPException(404, f"port {name[:64]!r} does not exist; use GUID_NUMBER, for example 0002c903000e0b72_1")
    return ends


def _switch(reading: Reading, service: TenantService, guid: str) -> tuple[str, list[str]]:
    """Return the GUID of a switch and the names of its ports that have a cable or are isolated."""
    node = reading.seen.find_system(guid)
    system = None if node is None else reading.seen.system(node)
    number = guid_of(guid)
    isolated = [one for port in list(service.state.isolated.values()) for one in port.ends]
    kept = [one for one in isolated if number in (one.guid, one.system)]
    if (system is None or system["type"] != "switch") and not kept:
        raise HTTPException(404, f"switch {guid[:64]!r} does not exist; use the GUID of a system of type switch")
    names = [] if system is None else _cabled(reading, system)
    away = guid_text(kept[0].guid) if system is None else system["guid"]
    return away, list(dict.fromkeys([*names, *(one.name for one in kept)]))


def _cabled(reading: Reading, system: dict[str, Any]) -> list[str]:
    """Return names of the system's ports with a cable to another system; an aggregation node
    belongs to its switch."""
    rows, out = reading.seen, []
    for name in system["ports"]:
        row = rows.find(name)
        peer = -1 if row is None else rows.peer(row)
        if peer >= 0 and rows.port(peer)["systemID"] != system["system_guid"]:
            out.append(name)
    return out
