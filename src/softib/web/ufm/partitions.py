"""UFM's calls about P_Keys: ``resources/pkeys`` and ``actions``.

Behaviour on which clients rely: every success is 200; keys in answers are unpadded (``0x5``); an
unknown P_Key is 200 with ``{}``; the membership of POST is a text and not a list; unknown GUIDs are
accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, StrictBool, field_validator

from softib.errors import InputError
from softib.tenants import changes
from softib.tenants.changes import Change, Options, Refused
from softib.tenants.model import (
    DEFAULT_BASE,
    Member,
    Partition,
    Qos,
    guid_text,
    members_of,
    parse_guid,
    parse_pkey,
    pkey_text,
)
from softib.tenants.service import TenantService
from softib.web.ufm.authority import TAKES_ID, account_of, submit
from softib.web.ufm.numbers import Number, Whole

__all__ = ["Membership", "add_partition_calls", "names_of"]

Membership = Literal["full", "limited"]
Guids = Annotated[list[str], Field(max_length=20_000)]


class _Body(BaseModel, extra="forbid"):
    """The body of one of UFM's requests about partitions. A misspelt ``membership`` would make full members, so
    an unknown field is an error; no known client sends one."""


class _Pkey(_Body):
    pkey: str
    index0: StrictBool | None = None
    ip_over_ib: StrictBool | None = None


class _Members(_Pkey):
    guids: Guids
    membership: Membership = "full"
    memberships: list[Membership] | None = None
    partition_name: Annotated[str | None, Field(max_length=128)] = None

    def members(self) -> dict[int, Member]:
        """Return each GUID with its membership: its entry in ``memberships``, otherwise ``membership``."""
        return _members(self.guids, self.membership if self.memberships is None else list(self.memberships))


class _Qos(_Body):
    mtu_limit: Whole = 2
    service_level: Whole = 0
    rate_limit: Number = 2.5


class _Add(_Pkey, _Qos):
    partition_name: Annotated[str | None, Field(max_length=128)] = None


class _QosOf(_Qos):
    pkey: str


class _Hosts(_Pkey):
    hosts_names: str | list[str]
    membership: Membership = "full"

    @field_validator("hosts_names")
    @classmethod
    def _named(cls, names: str | list[str]) -> str | list[str]:
        if isinstance(names, str) and not names_of(names):
            raise ValueError("names no host; use names of hosts, separated by commas")
        return names


class _Remove(_Body):
    pkey: str
    guids: Guids


def names_of(listed: str | list[str]) -> list[str]:
    """Return names of hosts from a client: a list, or a text separated by commas."""
    names = listed if isinstance(listed, list) else listed.replace(" ", ",").split(",")
    return [n for n in names if n]


def _members(guids: list[str], membership: str | list[str]) -> dict[int, Member]:
    of = [membership] * len(guids) if isinstance(membership, str) else membership
    if len(of) != len(guids):
        raise InputError(f"memberships has {len(of)} entries and guids {len(guids)}; give each GUID one")
    return members_of((parse_guid(g), Member(m == "full")) for g, m in zip(guids, of, strict=True))


def _options(request: Request, body: _Pkey, **options: Any) -> Options:
    account = account_of(request)
    given = {"index0": body.index0, "ip_over_ib": body.ip_over_ib, **options}
    return Options(tenant=account.tenant or None, **given)


def _document(service: TenantService, partition: Partition, guids: bool, qos: bool) -> dict[str, Any]:
    out: dict[str, Any] = {"partition": partition.name, "ip_over_ib": partition.ip_over_ib}
    if qos:
        q = partition.qos
        out["qos_conf"] = {"mtu_limit": q.mtu, "service_level": q.sl, "rate_limit": q.rate}
        if partition.ip_over_ib:
            out["qos_conf"]["group_rate"] = q.group_rate
    if guids:
        out["guids"] = [_guid(service, partition, guid, member) for guid, member in partition.members.items()]
        if partition.everyone:
            out["membership"] = partition.everyone
    return out


def _guid(service: TenantService, partition: Partition, guid: int, member: Member) -> dict[str, Any]:
    return {
        "guid": guid_text(guid),
        "index0": partition.index0,
        "membership": "full" if member.full else "limited",
        "programmed": service.programmed(partition, guid),
    }


def add_partition_calls(app: FastAPI, service: TenantService) -> None:
    """Add the calls to ``app``."""
    _add_questions(app, service)
    _add_changes(app, service)
    _add_removals(app, service)


def _visible(request: Request, partition: Partition | None) -> bool:
    account = account_of(request)
    return partition is not None and (account.role != "tenant" or partition.tenant == account.tenant)


def _add_questions(app: FastAPI, service: TenantService) -> None:
    @app.get("/resources/pkeys")
    def pkeys(request: Request, guids_data: bool = False, qos_conf: bool = False) -> dict[str, Any]:
        """Partitions by P_Key."""
        partitions = [p for p in list(service.state.partitions.values()) if _visible(request, p)]
        partitions.sort(key=lambda p: (p.pkey != DEFAULT_BASE, p.pkey))
        return {pkey_text(p.pkey): _document(service, p, guids_data, qos_conf) for p in partitions}

    @app.get("/resources/pkeys/{pkey}")
    def one_pkey(request: Request, pkey: str, guids_data: bool = False, qos_conf: bool = False) -> dict[str, Any]:
        """One partition; ``{}`` if there is none."""
        partition = service.state.partitions.get(parse_pkey(pkey))
        if partition is None or not _visible(request, partition):
            return {}
        return _document(service, partition, guids_data, qos_conf)


def _add_changes(app: FastAPI, service: TenantService) -> None:
    async def made(
        request: Request,
        pkey: int,
        action: str,
        change: Change,
        members: Collection[int] = (),
    ) -> dict[str, Any]:
        if pkey not in service.state.partitions:
            await run_in_threadpool(service.quarantine.refuse_held, pkey, members)
        await asyncio.wrap_future(submit(service, request, action, change, pkey))
        return {}

    @app.post("/resources/pkeys", dependencies=TAKES_ID)
    async def add_guids(request: Request, body: _Members) -> dict[str, Any]:
        """Add GUIDs to a partition, which is created if it does not exist."""
        pkey, members = parse_pkey(body.pkey), body.members()
        options = _options(request, body, name=body.partition_name)
        change: Change = lambda draft: changes.add_members(draft, pkey, members, options, service.view.room)
        return await made(request, pkey, "add GUIDs", change, members)

    @app.put("/resources/pkeys", dependencies=TAKES_ID)
    async def set_guids(request: Request, body: _Members) -> dict[str, Any]:
        """Give a partition these GUIDs and no others."""
        pkey, members = parse_pkey(body.pkey), body.members()
        options = _options(request, body, name=body.partition_name)
        change: Change = lambda draft: changes.set_members(draft, pkey, members, options, service.view.room)
        return await made(request, pkey, "set GUIDs", change, members)

    @app.post("/resources/pkeys/add", dependencies=TAKES_ID)
    async def create(request: Request, body: _Add) -> dict[str, Any]:
        """Create an empty partition; 400 if its P_Key is in use."""
        pkey = parse_pkey(body.pkey)
        qos = Qos(body.mtu_limit, body.service_level, body.rate_limit)
        options = _options(request, body, name=body.partition_name, qos=qos)
        try:
            return await made(request, pkey, "create", lambda draft: changes.create(draft, pkey, options))
        except Refused as error:
            raise InputError(str(error)) from None

    @app.put("/resources/pkeys/qos_conf", dependencies=TAKES_ID)
    async def set_qos(request: Request, body: _QosOf) -> dict[str, Any]:
        """Set MTU, SL and rate of a partition."""
        pkey, qos = parse_pkey(body.pkey), Qos(body.mtu_limit, body.service_level, body.rate_limit)
        change: Change = lambda draft: changes.set_qos(draft, pkey, qos)
        await asyncio.wrap_future(submit(service, request, "set QoS", change, pkey))
        return {}

    @app.post("/resources/pkeys/hosts", dependencies=TAKES_ID)
    async def add_hosts(request: Request, body: _Hosts) -> dict[str, Any]:
        """Add every port of the hosts."""
        pkey, hosts = parse_pkey(body.pkey), service.hosts_members(names_of(body.hosts_names))
        members = {g: Member(body.membership == "full", m.host) for g, m in hosts.items()}
        options = _options(request, body)
        change: Change = lambda draft: changes.add_members(draft, pkey, members, options, service.view.room)
        return await made(request, pkey, "add hosts", change, members)


def _add_removals(app: FastAPI, service: TenantService) -> None:
    async def remove(request: Request, pkey: int, guids: set[int], repeats: bool = False) -> dict[str, Any]:
        change: Change = lambda draft: changes.remove_members(draft, pkey, guids, repeats)
        await asyncio.wrap_future(submit(service, request, "remove GUIDs", change, pkey))
        return {}

    @app.post("/actions/remove_guids_from_pkey", dependencies=TAKES_ID)
    async def remove_guids(request: Request, body: _Remove) -> dict[str, Any]:
        """Remove GUIDs from a partition. The answer is 200 even if the partition does not exist, because ib-kubernetes
        repeats a removal until it gets 200.
        """
        return await remove(request, parse_pkey(body.pkey), {parse_guid(g) for g in body.guids}, repeats=True)

    @app.delete("/resources/pkeys/{pkey}/guids/{guids}", dependencies=TAKES_ID)
    async def delete_guids(request: Request, pkey: str, guids: str) -> dict[str, Any]:
        """Remove GUIDs, separated by commas, from a partition; 404 if it does not exist."""
        return await remove(request, parse_pkey(pkey), {parse_guid(g) for g in guids.split(",") if g})

    @app.delete("/resources/pkeys/{pkey}/hosts/{hosts}", dependencies=TAKES_ID)
    async def delete_hosts(request: Request, pkey: str, hosts: str) -> dict[str, Any]:
        """Remove the ports of hosts, separated by commas, from a partition; 404 if it or a host does not exist."""
        key, names = parse_pkey(pkey), names_of(hosts)
        partition = service.state.partitions.get(key)
        through = {g: m.host for g, m in partition.members.items() if m.host in names} if partition else {}
        others = service.hosts_members(set(names) - set(through.values())) if partition else {}
        present = {g for name in names for g in service.view.names.get(name, [])}
        return await remove(request, key, through.keys() | others.keys() | present)

    @app.delete("/resources/pkeys/{pkey}", dependencies=TAKES_ID)
    async def delete(request: Request, pkey: str) -> dict[str, Any]:
        """Delete a partition."""
        key = parse_pkey(pkey)
        change: Change = lambda draft: changes.delete_partition(draft, key, service.clock())
        await asyncio.wrap_future(submit(service, request, "delete", change, key))
        return {}
