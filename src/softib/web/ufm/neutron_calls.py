"""OpenStack Neutron's calls: its ML2 driver mlnx_sdn_assist (networking-mlnx) sends networks and
ports in Neutron's form, below a domain (``cloudx`` by default).

A network is a partition whose P_Key is its segmentation ID, and whose name is the network's ID. A
port is a member: a bare-metal host by the DHCP client ID that Ironic makes from its GUID, a virtual
function by the GUID that Neutron's agent makes from its MAC address. Each answer names a job, which
the driver polls until it is completed.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from fastapi import FastAPI, HTTPException, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from softib.errors import InputError
from softib.tenants import changes
from softib.tenants.changes import Change, NotThere, Options, Refused
from softib.tenants.model import DEFAULT_BASE, Member, Partition
from softib.tenants.service import TenantService
from softib.tenants.state import Draft
from softib.web.ufm.authority import account_of, submit
from softib.web.ufm.numbers import Whole

__all__ = ["add_neutron_calls"]

CLIENT_ID = ("client-id", "61")
"""Name and number of the DHCP option."""
Kind = Annotated[Literal["Network", "Port"], Path()]
Id = Annotated[str, Field(max_length=64)]


class _Option(BaseModel):
    opt_name: str | Whole | None = None
    opt_value: str | None = None


class _Object(BaseModel):
    """The keys of Neutron's networks and ports that are used here."""

    model_config = ConfigDict(populate_by_name=True)
    id: Id
    segmentation_id: Annotated[Whole | None, Field(alias="provider:segmentation_id")] = None
    network_id: Id = ""
    mac_address: str | None = None
    host: Annotated[str | None, Field(alias="binding:host_id", max_length=255)] = None
    vnic_type: Annotated[str | None, Field(alias="binding:vnic_type")] = None
    extra_dhcp_opts: list[_Option] = []


def add_neutron_calls(app: FastAPI, service: TenantService) -> None:
    """Add the calls to ``app``."""

    def done(request: Request, body: _Object, action: str, change: Change, pkey: int | None = None) -> str:
        return f"app/jobs/{submit(service, request, f'{action} {body.id}', change, pkey=pkey).result().revision}"

    @app.post("/{domain}/{kind}")
    def create_object(request: Request, domain: str, kind: Kind, body: _Object) -> str:
        """Handle a created or bound network or port."""
        return update_object(request, domain, kind, body.id, body)

    @app.put("/{domain}/{kind}/{number}")
    def update_object(request: Request, domain: str, kind: Kind, number: str, body: _Object) -> str:
        """Handle a changed network or port."""
        tenant = account_of(request).tenant
        if kind == "Network":
            pkey = _pkey(body)
            service.quarantine.refuse_held(pkey)
            network: Change = lambda draft: _put_network(draft, pkey, body.id, tenant)
            return done(request, body, "Neutron network", network, pkey)
        guid = _guid(body)

        def add(draft: Draft) -> str:
            partition = _of_network(draft, service, body.network_id, tenant)
            members = {guid: Member(host=body.host or "")}
            return changes.add_members(draft, partition.pkey, members, Options(), service.view.room)

        return done(request, body, "Neutron port", add)

    @app.delete("/{domain}/{kind}/{number}")
    def remove_object(request: Request, domain: str, kind: Kind, number: str, body: _Object) -> str:
        """Handle a deleted network or port; 404 if it does not exist, which the driver treats as success."""
        tenant = account_of(request).tenant
        if kind == "Network":

            def delete(draft: Draft) -> str:
                pkey = _of_network(draft, service, body.id, tenant).pkey
                return changes.delete_partition(draft, pkey, service.clock())

            return done(request, body, "Neutron network deleted", delete)
        guid = _guid(body)

        def take(draft: Draft) -> str:
            return changes.remove_members(draft, _of_network(draft, service, body.network_id, tenant).pkey, [guid])

        return done(request, body, "Neutron port deleted", take)


def _pkey(network: _Object) -> int:
    if network.segmentation_id is None:
        raise HTTPException(501, f"network {network.id} has no segmentation ID; it has no partition")
    if not 0 < network.segmentation_id <= DEFAULT_BASE:
        raise InputError(f"segmentation ID {network.segmentation_id} is not a P_Key; use 1 to {DEFAULT_BASE}")
    return network.segmentation_id


def _put_network(draft: Draft, pkey: int, name: str, tenant: str) -> str:
    """Create the partition of a network. A repeated request has no effect; a P_Key in use for another purpose is
    refused."""
    partition = draft.partition(pkey)
    if partition is None:
        return changes.create(draft, pkey, Options(name=name, tenant=tenant or None))
    if (partition.name, partition.tenant) != (name, tenant):
        raise Refused(f"P_Key {pkey:#x} belongs to another partition; give the network another segmentation ID")
    return f"{name} is {pkey:#x}"


def _of_network(draft: Draft, service: TenantService, name: str, tenant: str) -> Partition:
    """Return the network's partition. A partition of another tenant may have the same name: any
    client can choose a name."""
    listed = {*service.state.partitions, *draft.partitions, *getattr(draft.base, "partitions", ())}
    matches = (draft.partition(pkey) for pkey in listed)
    partition = next((p for p in matches if p is not None and (p.name, p.tenant) == (name, tenant)), None)
    if partition is None:
        raise NotThere(f"there is no partition of network {name}; send the network first")
    return partition


def _guid(port: _Object) -> int:
    """Return the GUID of a port. Status 501, which the driver treats as success, for a port that is
    not an InfiniBand port."""
    for option in port.extra_dhcp_opts:
        client = re.fullmatch(r"ff(?::[0-9a-fA-F]{2}){11}((?::[0-9a-fA-F]{2}){8})", option.opt_value or "")
        if str(option.opt_name) in CLIENT_ID and client:
            return int(client[1].replace(":", ""), 16)
    octets = (port.mac_address or "").replace(":", "")
    if port.vnic_type == "direct" and re.fullmatch("[0-9a-fA-F]{12}", octets):
        return int(f"{octets[:6]}0000{octets[6:]}", 16)
    raise HTTPException(501, f"port {port.id} has neither a client ID of InfiniBand nor a virtual function's address")
