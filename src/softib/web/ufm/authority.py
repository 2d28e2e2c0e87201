"""Determines the account of a request, and makes the account's changes. An account of a tenant can change only the
partitions of its tenant, and requests with the same ID take effect only once.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import Future
from typing import Annotated

from fastapi import Depends, Header, Request

from softib.errors import InputError
from softib.tenants import changes, writer
from softib.tenants.accounts import Account
from softib.tenants.changes import Change, Refused
from softib.tenants.model import guid_text, pkey_text
from softib.tenants.service import TenantService
from softib.tenants.state import Draft
from softib.tenants.writer import Done

__all__ = ["TAKES_ID", "account_of", "id_of", "operator_of", "owner_of", "submit"]

MOST_OF_ID = 128


async def _documented(
    request_id: Annotated[str | None, Header(alias="X-Request-Id", max_length=MOST_OF_ID)] = None,
) -> None:
    """Describe the header that :func:`submit` reads. Asynchronous, because FastAPI calls others in a thread."""


TAKES_ID = [Depends(_documented)]
"""FastAPI dependencies of calls that accept a request ID."""


def account_of(request: Request) -> Account:
    """Return the account of a request that passed the gate."""
    account: Account = request.state.account
    return account


def operator_of(request: Request, role: tuple[str, ...] = ("admin", "operator")) -> Account:
    """Return the account of a request that is permitted only with these roles."""
    account = account_of(request)
    if account.role not in role:
        raise changes.Forbidden(f"{account.name} is {account.role}; this call needs {' or '.join(role)}")
    return account


def id_of(request: Request) -> str | None:
    """Return the ID that the client gave to the request."""
    request_id = request.headers.get("x-request-id")
    if request_id is not None and len(request_id) > MOST_OF_ID:
        raise InputError(f"X-Request-Id: has more than {MOST_OF_ID} characters; use a shorter one")
    return request_id


def owner_of(account: Account) -> str:
    """Return a text that identifies the owner of the account's request IDs. Names of tenants are printable, so no
    other account has the same text."""
    return f"{account.tenant}\n{account.name}"


def submit(
    service: TenantService,
    request: Request,
    action: str,
    change: Change,
    pkey: int | None = None,
    returns: bool = False,
    repeats: bool = True,
) -> Future[Done]:
    """Make a change as the request's account; for a tenant's account, within its tenant. ``pkey``: P_Key of the
    partition in the request. ``returns``: the change is an undo. Without ``repeats``, the request's ID does not apply
    to this change.
    """
    account, request_id = account_of(request), id_of(request) if repeats else None
    content = f"{request.method} {request.url.path}\n".encode() + _canonical(request.state.body)
    digest = hashlib.sha256(content).hexdigest()
    made = writer.Request(change, account.name, action, request_id, digest, owner_of(account), returns=returns)
    if account.role == "tenant":
        made.change = lambda draft: _within(draft, change, account.tenant, pkey, service)
        made.may_see = lambda draft, done: _authorised(draft, done, account.tenant)
    return service.submit(made)


def _canonical(body: bytes) -> bytes:
    """Return a canonical form of a JSON text: keys are sorted, and whole numbers have no fraction."""
    try:
        whole = lambda text: int(number) if (number := float(text)).is_integer() else number
        return json.dumps(json.loads(body, parse_float=whole), sort_keys=True).encode()
    except (ValueError, RecursionError):
        return body


def _within(draft: Draft, change: Change, tenant: str, pkey: int | None, service: TenantService) -> str:
    """Make a change that only affects the tenant's partitions, and adds only ports of this tenant. The right to the
    partition in the request is checked before anything else in the change."""
    named = None if pkey is None else draft.partition(pkey)
    if named is not None and named.tenant != tenant:
        raise changes.Forbidden(f"P_Key {pkey_text(named.pkey)} does not belong to {tenant}")
    text = change(draft)
    if draft.tenants:
        raise Refused("only operators may change tenants")
    for pkey, new in draft.partitions.items():
        old = draft.base.partition(pkey)
        if (old is not None and old.tenant != tenant) or (new is not None and new.tenant != tenant):
            raise changes.Forbidden(f"P_Key {pkey_text(pkey)} does not belong to {tenant}")
        for guid in (new.members.keys() if new else set()) - (old.members.keys() if old else set()):
            if whose := service.operators_port(guid):
                raise changes.Forbidden(f"port {guid_text(guid)} is {whose}; only operators may add it")
            owners = {p.tenant for k in draft.base.memberships(guid) if (p := draft.base.partition(k)) is not None}
            if owners - {"", tenant}:
                raise changes.Forbidden(f"port {guid_text(guid)} belongs to another tenant")
            if tenant not in owners and not _is_assigned(draft, tenant, {guid, service.physical(guid)}):
                raise changes.Forbidden(
                    f"port {guid_text(guid)} is not assigned to {tenant}; an operator assigns it with "
                    f"PUT /tenants/v1/tenants/{tenant}"
                )
    return text


def _is_assigned(draft: Draft, tenant: str, guids: set[int]) -> bool:
    """Return whether one of ``guids`` is assigned to the tenant, or the tenant may use any port."""
    one = draft.tenant(tenant)
    return one is not None and (one.ports is None or not {guid_text(g) for g in guids}.isdisjoint(one.ports))


def _authorised(draft: Draft, done: Done, tenant: str) -> None:
    """Check that the partitions of an earlier answer still belong to the tenant, or to no tenant."""
    for pkey in sorted(done.pkeys):
        now = draft.partition(pkey)
        if now is not None and now.tenant != tenant:
            raise changes.Forbidden(f"P_Key {pkey_text(pkey)} does not belong to {tenant}")
