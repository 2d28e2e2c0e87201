"""Virtual ports of adapters (SR-IOV functions of Mellanox HCAs).

Virtual port 0 is the physical function; it has the PortGUID and the port's LID. Each other virtual
port belongs to its own virtual HCA with one port. :mod:`softib.iba.vendor.vports` declares the
attributes of virtual ports; agents answer MADs for them (``agents/kernels/vports``).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba.constants import DEFAULT_PKEY, CapMask2, PortState
from softib.iba.smp import PortInfo
from softib.iba.vendor.vports import VPORT_GUIDS, VPORT_PKEYS, VirtualizationInfo, VNodeInfo, VPortInfo

__all__ = ["MOST_FUNCTIONS", "give_virtual_ports", "plan_virtual_ports", "power_up_vports"]

MOST_FUNCTIONS = 255
"""Maximum number of virtual functions of a port. A function's GUID contains its index in one
byte."""
LOCALLY_ADMINISTERED, INDEX_AT = 0x0200_0000_0000_0000, 40
"""A function's GUID is its port's GUID with the locally-administered bit set, and with the
function's index in the last byte of the OUI."""


def plan_virtual_ports(fabric: Fabric, wanted: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return (functions int64[ports], require_lids bool[ports]) as ``virtual_ports`` of a fabric
    file states them. Keys of ``wanted`` are host names with wildcards ``*`` and ``?``; if several
    match a host, the last is used. Raises :class:`InputError` for a name that matches no host; the
    error's ``parameter`` is the name."""
    functions, lids = np.zeros(fabric.sizes.ports, np.int64), np.zeros(fabric.sizes.ports, bool)
    hosts = np.flatnonzero(fabric.is_host)
    names = [fabric.node_name(int(node)) for node in hosts]
    for pattern, given in wanted.items():
        fits = [int(node) for node, name in zip(hosts, names, strict=True) if fnmatchcase(name, pattern)]
        if not fits:
            error = InputError(f"virtual_ports: no host is called {pattern}")
            error.parameter = pattern  # type: ignore[attr-defined]
            raise error
        count, required = (given, False) if isinstance(given, int) else (given.functions, given.lid_required)
        for node in fits:
            ports = np.array(fabric.ports_of(node))
            functions[ports], lids[ports] = count, required
    return functions, lids


def give_virtual_ports(fabric: Fabric, functions: np.ndarray, lid_required: np.ndarray) -> None:
    """Create virtual functions on ports and replace earlier ones. ``functions`` (int64[ports]) is
    the number per port; all are in use. Call this before a manager configures the fabric.
    ``lid_required`` bool[ports]: the subnet manager must assign a LID to each function of the port.

    Raises :class:`InputError` for more than :data:`MOST_FUNCTIONS` functions.
    """
    if int(functions.max(initial=0)) > MOST_FUNCTIONS:
        raise InputError(
            f"{int(functions.max())} virtual functions on a port are too many; use at most {MOST_FUNCTIONS}"
        )
    ports = np.flatnonzero(functions)
    rows = functions[ports] + 1
    port = np.repeat(ports, rows)
    first = np.cumsum(rows) - rows
    index = np.arange(len(port)) - np.repeat(first, rows)
    fabric.sizes.vports = n = len(port)
    fabric.vport_base[...] = 0
    fabric.vport_base[ports] = first
    head = VirtualizationInfo.pack(
        vport_cap=functions[ports], vport_index_top=functions[ports], virtualization_enable=1
    )
    fabric.virtualization[...] = 0
    fabric.virtualization[ports] = head.reshape(-1, 64)[:, :8]
    has = np.where(functions > 0, int(CapMask2.VIRTUALIZATION), 0)
    others = PortInfo.cap_mask2.get(fabric.port_info).astype(np.int64) & ~int(CapMask2.VIRTUALIZATION)
    PortInfo.cap_mask2.set(fabric.port_info, others | has)
    guid = fabric.port_guid[port]
    local_guid = (guid | np.uint64(LOCALLY_ADMINISTERED)) ^ (index.astype(np.uint64) << np.uint64(INDEX_AT))
    guid = np.where(index == 0, guid, local_guid)
    fabric.vport_enabled = np.ones(n, np.uint8)
    required = lid_required[port] & (index > 0)
    info = VPortInfo.pack(
        vport_guid=guid, guid_cap=VPORT_GUIDS, capability_mask=1, lid_required=required.astype(np.uint8)
    )
    fabric.vport_info = info.reshape(n, 64).copy()
    node_guid = np.where(index == 0, fabric.node_guid[fabric.port_node[port]], local_guid)
    number = np.where(index == 0, fabric.port_num[port], 1)
    nports = np.where(index == 0, fabric.node_nports[fabric.port_node[port]], 1)
    vnodes = VNodeInfo.pack(partition_cap=VPORT_PKEYS, local_port_num=number, num_ports=nports, vnode_guid=node_guid)
    fabric.vnode_info = vnodes.reshape(n, 64).copy()
    texts = [
        fabric.node_name(int(fabric.port_node[p])) + (f" VF{i}" if i else "")
        for p, i in zip(port.tolist(), index.tolist(), strict=True)
    ]
    raw = b"".join(text.encode()[:64].ljust(64, b"\0") for text in texts)
    fabric.vnode_desc = np.frombuffer(raw, np.uint8).reshape(n, 64).copy()
    fabric.vport_guids, fabric.vport_pkeys = (
        np.zeros((n, VPORT_GUIDS), np.uint64),
        np.zeros((n, VPORT_PKEYS), np.uint16),
    )
    power_up_vports(fabric)


def power_up_vports(fabric: Fabric) -> None:
    """Reset all values of virtual ports that MADs write to their power-up values. Virtual ports in
    use then have the default partition and no LID, until a manager configures them."""
    info, used = fabric.vport_info, fabric.vport_enabled > 0
    VPortInfo.vport_state.set(info, np.where(used, PortState.INIT, PortState.DOWN))
    for field in (
        VPortInfo.vport_lid,
        VPortInfo.lid_by_vport_index,
        VPortInfo.pkey_violations,
        VPortInfo.qkey_violations,
    ):
        field.set(info, 0)
    fabric.vport_guids[...], fabric.vport_pkeys[...] = 0, 0
    fabric.vport_guids[:, 0] = VPortInfo.vport_guid.get(info)
    fabric.vport_pkeys[:, 0] = DEFAULT_PKEY
