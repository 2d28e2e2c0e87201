"""Discovery of a target's subsystems from its discovery log page."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

import numpy as np

from softib.errors import InputError, PeerError
from softib.ulp.nvmeof.codes import DISCOVERY_NQN, LogPage
from softib.ulp.nvmeof.host.command_queue import Host
from softib.ulp.nvmeof.host.controller import HostController
from softib.ulp.nvmeof.structures import DISCOVERY_ENTRY, DISCOVERY_HEADER, read_structure

__all__ = ["Entry", "discover", "this_host"]

NVM_SUBSYSTEM = 2
RDMA, IPV4 = 1, 1
MOST_ENTRIES = 1024
NAMESPACE_OF_HOSTS = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")
"""The namespace of RFC 9562 for UUIDs made from OIDs. softib defines an OID for each node."""


def this_host() -> Host:
    """Return the identity of this host; each node of a fabric has a different one."""
    place = os.environ.get("SOFTIB_PLACE", "") or os.uname().nodename
    identity = uuid.uuid5(NAMESPACE_OF_HOSTS, f"softib {place}")
    return Host(f"nqn.2014-08.org.nvmexpress:uuid:{identity}", identity.bytes)


@dataclass(frozen=True)
class Entry:
    """An entry of a discovery log page."""

    port: int
    address: str
    service: int
    nqn: str


def discover(address: str, port: int, host: Host) -> list[Entry]:
    """Return the NVM subsystems of a target and their ports, over RDMA. Raises
    :class:`InputError`, :class:`PeerError`."""
    controller = HostController(address, port, DISCOVERY_NQN, host, discovery=True)
    try:
        header = read_structure(DISCOVERY_HEADER, controller.log_page(LogPage.DISCOVERY, DISCOVERY_HEADER.itemsize))
        count = int(header["numrec"])
        if count > MOST_ENTRIES:
            raise PeerError(f"{address} port {port}: a discovery log page of {count:,} entries")
        size = DISCOVERY_HEADER.itemsize + count * DISCOVERY_ENTRY.itemsize
        page = controller.log_page(LogPage.DISCOVERY, size)
    finally:
        controller.close()
    entries = np.frombuffer(page, DISCOVERY_ENTRY, count, DISCOVERY_HEADER.itemsize)
    return [
        Entry(int(e["portid"]), _text(e["traddr"]), _number(_text(e["trsvcid"])), _text(e["subnqn"]))
        for e in entries
        if e["trtype"] == RDMA and e["adrfam"] == IPV4 and e["subtype"] == NVM_SUBSYSTEM
    ]


def _text(field: bytes) -> str:
    return field.decode(errors="replace").rstrip()


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InputError(
            f"the target's discovery log page has port {text[:32]!r}, which is not a number; use another target"
        )
    return int(text)
