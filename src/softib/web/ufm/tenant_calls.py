"""softib's own REST interface to partitions as a service: tenants, assigned P_Keys, revisions, findings, isolation, dry
runs, accounts, import and export.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, field_validator

from softib.errors import InputError
from softib.plural import counted
from softib.tenants import changes
from softib.tenants.accounts import Account
from softib.tenants.changes import Change, NotThere, Options, Refused
from softib.tenants.findings import Finding
from softib.tenants.model import Partition, Qos, Tenant, guid_text, parse_guid, parse_pkey, pkey_text
from softib.tenants.partitions_file import exported, from_conf, from_ufm
from softib.tenants.quarantine import Resting
from softib.tenants.service import RELEASE, TenantService
from softib.tenants.state import Draft, Rows
from softib.tenants.store import Revision
from softib.web.ufm.authority import TAKES_ID, account_of, operator_of, submit

__all__ = ["add_tenant_calls"]

LONGEST_WAIT_S = 30.0


class _Body(BaseModel, extra="forbid", strict=True):
    """The body of a request in softib's own interface. An unknown field is an error; it is not ignored."""


class _Limits(_Body):
    limit: Annotated[int, Field(ge=0, le=32_766)] | None = None
    ports: list[str] | Literal["any"] | None = None

    @field_validator("ports", mode="before")
    @classmethod
    def _known(cls, ports: object) -> object:
        if not isinstance(ports, list | None) and ports != "any":
            raise ValueError('must be a list of PortGUIDs, or "any" for all ports')
        return ports


class _New(_Body):
    name: Annotated[str, Field(min_length=1, max_length=128)]
    tenant: str = ""
    index0: bool = False
    ip_over_ib: bool = True
    mtu_limit: int = 2
    service_level: int = 0
    rate_limit: float = 2.5


class _Default(_Body):
    membership: Literal["full", "limited"]


class _NewAccount(_Body):
    role: Literal["admin", "operator", "viewer", "tenant"]
    tenant: str = ""
    password: Annotated[str, Field(max_length=1024)]


class _Account(BaseModel):
    name: str
    role: str
    tenant: str


class _Guids(_Body):
    guids: Annotated[list[str], Field(max_length=1000)]


class _Restore(_Body):
    file: Annotated[str, Field(max_length=4096)]
    dry_run: bool = False


class _Import(_Body):
    format: Literal["partitions.conf", "ufm"]
    content: str | dict[str, Any]
    dry_run: bool = False


class _Made(BaseModel):
    revision: int


class _Allotted(_Made):
    pkey: str


class _Undone(_Made):
    detail: str


class _Tenant(BaseModel):
    name: str
    limit: int
    ports: list[str] | Literal["any"]
    partitions: int


class _Revision(BaseModel):
    id: int
    at_s: float
    actor: str
    action: str
    request_id: str | None
    state: Literal["durable", "programmed", "pending", "superseded", "rolled-back", "refused"]
    detail: str
    settled_s: float | None


class _RevisionRows(_Revision):
    rows: Rows


class _Meets(BaseModel):
    a: str
    b: str
    a_port: str
    b_port: str
    pkey: str
    reason: str


class _Isolation(BaseModel):
    isolated: bool | None
    pairs: int
    meets: list[_Meets]
    exceptions: list[_Meets]
    silent: list[str]


class _Restored(BaseModel):
    """The answer has ``rows`` after a dry run, and ``revision`` after a change."""

    rows: Rows | None = None
    revision: int | None = None


class _Imported(_Restored):
    notes: list[str]


class _Backup(BaseModel):
    file: str


class _Token(BaseModel):
    access_token: str


def add_tenant_calls(app: FastAPI, service: TenantService) -> None:
    """Add the calls to ``app``."""
    _add_tenants(app, service)
    _add_revisions(app, service)
    _add_whole(app, service)
    _add_accounts(app, service)


def _row(revision: Revision) -> dict[str, Any]:
    return {name: getattr(revision, name) for name in _Revision.model_fields}


def _add_tenants(app: FastAPI, service: TenantService) -> None:
    @app.get("/tenants")
    def tenants(request: Request) -> list[_Tenant]:
        """Tenants, their limits and ports, and the number of partitions of each."""
        account = account_of(request)
        listed = [
            t for t in list(service.state.tenants.values()) if account.role != "tenant" or t.name == account.tenant
        ]
        return [
            _Tenant(
                name=t.name,
                limit=t.limit,
                ports="any" if t.ports is None else list(t.ports),
                partitions=service.state.partitions_of(t.name),
            )
            for t in listed
        ]

    @app.put("/tenants/{name}")
    def put_tenant(request: Request, name: str, body: _Limits) -> _Made:
        """Create a tenant, or change its limit and its ports: PortGUIDs, or ``any`` for all ports. If the limit or the
        ports are not given, an existing tenant keeps them; a new tenant gets no ports, and a limit of 1024.
        """
        operator_of(request)
        given = sorted({*map(parse_guid, body.ports)}) if isinstance(body.ports, list) else []

        def change(draft: Draft) -> str:
            tenant = draft.tenant(name) or Tenant(name, ports=())
            before = tenant.ports or ()
            if body.limit is not None:
                tenant = replace(tenant, limit=body.limit)
            if body.ports is not None:
                tenant = replace(tenant, ports=None if body.ports == "any" else tuple(map(guid_text, given)))
            for guid in given if service.is_read else ():
                if guid_text(guid) not in before and (whose := service.operators_port(guid)):
                    raise Refused(
                        f"port {guid_text(guid)} is {whose}, which only operators may add to a partition; leave it out"
                    )
            return changes.put_tenant(draft, tenant)

        return _Made(revision=submit(service, request, "put tenant", change).result().revision)

    @app.delete("/tenants/{name}")
    def remove_tenant(request: Request, name: str) -> _Made:
        """Remove a tenant without partitions."""
        operator_of(request)
        change: Change = lambda draft: changes.remove_tenant(draft, name)
        return _Made(revision=submit(service, request, "remove tenant", change).result().revision)

    @app.post("/partitions", dependencies=TAKES_ID)
    def allot(request: Request, body: _New) -> _Allotted:
        """Make a partition with a free P_Key."""
        account = account_of(request)
        if account.role == "tenant" and body.tenant not in ("", account.tenant):
            raise changes.Forbidden(
                f"{account.name} belongs to tenant {account.tenant} and has no access to other tenants"
            )
        qos = Qos(body.mtu_limit, body.service_level, body.rate_limit)
        options = Options(body.name, account.tenant or body.tenant or None, body.index0, body.ip_over_ib, qos)
        pkeys: list[int] = []

        def change(draft: Draft) -> str:
            pkeys[:] = [service.allot(draft, options)]
            return f"{pkey_text(pkeys[0])} allotted"

        done = submit(service, request, "allot", change).result()
        pkey = pkeys[0] if pkeys else next(iter(done.pkeys), 0)
        return _Allotted(pkey=pkey_text(pkey), revision=done.revision)

    @app.put("/default_membership")
    def default_membership(request: Request, body: _Default) -> _Made:
        """Make ports that are in no other partition full or limited members of the default partition."""
        operator_of(request)
        change: Change = lambda draft: changes.set_everyone(draft, body.membership)
        return _Made(revision=submit(service, request, "default membership", change).result().revision)


def _add_revisions(app: FastAPI, service: TenantService) -> None:
    @app.get("/revisions")
    def revisions(
        request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 100, before: int | None = None
    ) -> list[_Revision]:
        """Return the log of changes, the newest first: user, change, time, and outcome."""
        operator_of(request, ("admin", "operator", "viewer"))
        return [_Revision(**_row(r)) for r in service.store.revisions(limit, before)]

    @app.get("/revisions/{number}")
    def revision(
        request: Request, number: int, wait_s: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = 0.0
    ) -> _RevisionRows:
        """One change with its rows; with ``wait_s``, the answer waits up to that time until the state of the
        change is no longer ``durable``."""
        operator_of(request, ("admin", "operator", "viewer"))
        change = service.settled(number, wait_s)
        if change is None:
            raise NotThere(f"revision {number} does not exist")
        return _RevisionRows(**_row(change), rows=change.rows)

    @app.post("/revisions/{number}/undo")
    def undo(request: Request, number: int) -> _Undone:
        """Undo a change, except rows that later changes have modified."""
        operator_of(request)
        done = submit(service, request, f"undo revision {number}", service.undo_of(number), returns=True).result()
        return _Undone(revision=done.revision, detail=done.text)

    @app.get("/findings")
    def findings(request: Request, resolved: bool = False) -> list[Finding]:
        """Changes of the tables by other programs, refused packets, and memberships that cannot be
        written; ``resolved``: also those that have ended."""
        operator_of(request, ("admin", "operator", "viewer"))
        return service.findings(resolved)

    @app.get("/quarantine")
    def quarantine(request: Request) -> list[Resting]:
        """Return the P_Keys that are not assigned now, and the ports that may have them."""
        operator_of(request, ("admin", "operator", "viewer"))
        return service.quarantine.resting()

    @app.delete("/quarantine/{pkey}")
    def release(request: Request, pkey: str) -> _Made:
        """End the quarantine of a P_Key. With this, the operator confirms that ports that do not answer do not have
        it.
        """
        operator_of(request)
        key = parse_pkey(pkey)
        change: Change = lambda draft: changes.release(draft, key, service.clock(), service.quarantine.occupied)
        return _Made(revision=submit(service, request, RELEASE, change).result().revision)

    @app.post("/isolation")
    def isolation(request: Request, body: _Guids) -> _Isolation:
        """Read the tables of all ports, and list the pairs of a given port and another port that can exchange packets
        although no partition contains both. ``pairs``: number of these pairs. ``exceptions``: pairs with the subnet
        manager's port. ``isolated`` is null while a port does not answer, or if no port is given.
        """
        operator_of(request, ("admin", "operator", "viewer"))
        guids = [parse_guid(g) for g in body.guids]
        found = service.isolation(guids)
        name_of = lambda guid: p.name if (p := service.view.ports.get(guid)) else ""
        row = lambda m: _Meets(
            a=guid_text(m.a),
            b=guid_text(m.b),
            a_port=name_of(m.a),
            b_port=name_of(m.b),
            pkey=pkey_text(m.pkey),
            reason=m.reason,
        )
        return _Isolation(
            isolated=False if found.pairs else None if found.silent or not guids else True,
            pairs=found.pairs,
            meets=list(map(row, found.meets)),
            exceptions=list(map(row, found.exceptions)),
            silent=list(map(guid_text, found.silent)),
        )


def _add_whole(app: FastAPI, service: TenantService) -> None:
    @app.get("/export/partitions.conf", response_class=PlainTextResponse)
    def export(request: Request) -> str:
        """All partitions as OpenSM's file; comments list what it cannot express. UFM's form is GET
        resources/pkeys?guids_data=true&qos_conf=true."""
        operator_of(request, ("admin", "operator", "viewer"))
        return exported(list(service.state.partitions.values()))

    @app.post("/import", response_model_exclude_none=True)
    def import_partitions(request: Request, body: _Import) -> _Imported:
        """Add the partitions of a partitions.conf, or of UFM's answer to GET
        resources/pkeys?guids_data=true; partitions with other P_Keys stay."""
        operator_of(request)
        if body.format == "ufm":
            partitions, notes = from_ufm(body.content), list[str]()
        elif isinstance(body.content, str):
            partitions, notes = from_conf(
                body.content, "partitions.conf", service.quarantine.taken(), list(service.state.partitions.values())
            )
        else:
            raise InputError("content: must be the text of partitions.conf")
        change: Change = lambda draft: _entered(draft, partitions, service)
        if body.dry_run:
            return _Imported(rows=service.rehearse(change), notes=notes)
        for partition in partitions:
            service.quarantine.refuse_held(partition.pkey, partition.members)
        return _Imported(revision=submit(service, request, "import", change).result().revision, notes=notes)

    @app.post("/backup")
    def backup(request: Request) -> _Backup:
        """Copy the database to a file in its folder while it is in use."""
        operator_of(request, ("admin",))
        path = service.folder / f"tenants-{int(service.clock())}.db"
        service.store.backup(path)
        return _Backup(file=str(path.resolve()))

    @app.post("/restore", response_model_exclude_none=True)
    def restore(request: Request, body: _Restore) -> _Restored:
        """Set tenants and partitions to the contents of a backup, as one revision. Accounts stay as they are."""
        operator_of(request, ("admin",))
        target = service.store.state_of_backup(PurePath(body.file).name)
        change: Change = lambda draft: changes.restore(draft, target, service.clock())
        if body.dry_run:
            return _Restored(rows=service.rehearse(change))
        return _Restored(revision=submit(service, request, "restore", change).result().revision)


def _entered(draft: Draft, partitions: list[Partition], service: TenantService) -> str:
    for p in partitions:
        old = draft.partition(p.pkey)
        options = Options(p.name, old.tenant if old else None, p.index0, p.ip_over_ib, p.qos)
        before = old.members if old else {}
        # Neither format contains the host names with which members were added.
        members = {g: replace(m, host=before[g].host) if g in before else m for g, m in p.members.items()}
        changes.set_members(draft, p.pkey, members, options, service.view.room)
        if p.everyone:
            changes.set_everyone(draft, p.everyone)
    return f"{counted(len(partitions), 'partition')} entered"


def _add_accounts(app: FastAPI, service: TenantService) -> None:
    @app.get("/accounts")
    def accounts(request: Request) -> list[_Account]:
        """Names, roles and tenants."""
        operator_of(request, ("admin",))
        return [_Account(name=one.name, role=one.role, tenant=one.tenant) for one in service.accounts.all()]

    @app.put("/accounts/{name}")
    def put_account(request: Request, name: str, body: _NewAccount) -> dict[str, Any]:
        """Create an account, or change it. A client certificate with the common name ``name`` belongs to it."""
        if operator_of(request, ("admin",)).name == name and body.role != "admin":
            raise InputError(
                "an administrator cannot change the role of its own account; use another administrator's account"
            )
        service.accounts.put(Account(name, body.role, body.tenant), body.password)
        return {}

    @app.delete("/accounts/{name}")
    def remove_account(request: Request, name: str) -> dict[str, Any]:
        """Remove an account and its tokens."""
        if operator_of(request, ("admin",)).name == name:
            raise InputError("an administrator cannot remove its own account; use another administrator's account")
        service.accounts.remove(name)
        return {}

    @app.post("/tokens")
    def token(request: Request) -> _Token:
        """A token for the account of the request."""
        return _Token(access_token=service.accounts.new_token(account_of(request)))
