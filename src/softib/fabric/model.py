"""The fabric: the arrays of :mod:`softib.fabric.columns` and small helpers to address them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.fabric.columns import COLUMNS, LAZY_COLUMNS, Sizes
from softib.foreign_text import field_text
from softib.iba.constants import NodeType
from softib.iba.devices import is_host
from softib.iba.smp import PortInfo
from softib.plural import counted

__all__ = ["Fabric", "Reported", "Source"]


@dataclass(frozen=True)
class Reported:
    """A finding in the source, reported by the tool that wrote it (sections WARNINGS_* and ERRORS_*
    of a .db_csv).

    ``severity``: ``warning`` or ``error``. ``check``: the rest of the section's name. ``scope``:
    CLUSTER, SYSTEM, NODE, PORT … ``node``: -1 if the fabric has no such node. ``portnum``: None
    except for scope PORT. ``line``: line of the file.
    """

    severity: str
    check: str
    scope: str
    node: int
    portnum: int | None
    event: str
    summary: str
    line: int


@dataclass
class Source:
    """Origin of a fabric, and the data that the source *records*. Checks use only recorded data.

    ``records`` is a subset of ``lids``, ``lmcs``, ``states``, ``speeds``, ``capabilities``,
    ``lfts``, ``sm``, ``lengths``, ``unlinked`` (ports without a cable are also listed),
    ``counters``, ``lost links`` (checks use no other counter than LinkDownedCounter),
    ``temperatures``, ``fec``, ``firmware`` and ``ber`` (the file states bit error ratios of cables;
    never for a running fabric, whose counters show them). ``Fabric.node_stated``
    holds the recorded identity fields of each node. ``system_links`` is the number of links between
    systems in a ``.topo`` file, None elsewhere. ``reported`` are the findings of the tool that
    wrote the source. ``sms`` are the subnet managers that the source lists: dicts with ``node``,
    ``portnum``, ``priority``, ``state``, and ``internal`` if ``softib up`` runs it.
    ``down_cables`` are the cables of a running fabric that have no working link, as int64[n, 2]
    rows of their ports. The fabric's copy does not contain them.
    """

    format: str = "generated"
    path: str = ""
    records: frozenset[str] = frozenset()
    system_links: int | None = None
    sms: list[dict[str, Any]] = field(default_factory=list)
    generator: dict[str, Any] = field(default_factory=dict)
    reported: list[Reported] = field(default_factory=list)
    down_cables: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64), compare=False)


class Fabric:
    """An InfiniBand fabric as arrays. Every column in ``COLUMNS`` is an attribute of the same name.

    ``port_label`` and ``node_system`` hold texts from files that have no wire format: the label
    printed on a switch port (``1/1/1``), and the system (chassis) that contains a node.
    """

    node_type: np.ndarray
    node_nports: np.ndarray
    node_base: np.ndarray
    node_guid: np.ndarray
    sys_guid: np.ndarray
    vendor_id: np.ndarray
    device_id: np.ndarray
    revision: np.ndarray
    node_stated: np.ndarray
    node_temperature: np.ndarray
    node_firmware: np.ndarray
    node_psid: np.ndarray
    node_strict: np.ndarray
    node_ethernet: np.ndarray
    node_desc: np.ndarray
    switch_of_node: np.ndarray
    port_node: np.ndarray
    port_num: np.ndarray
    port_guid: np.ndarray
    port_peer: np.ndarray
    port_cable: np.ndarray
    port_info: np.ndarray
    port_mlnx_speed: np.ndarray
    port_fec: np.ndarray
    module_temperature: np.ndarray
    port_loss: np.ndarray
    port_drain: np.ndarray
    pkey_base: np.ndarray
    pkey_cap: np.ndarray
    guid_base: np.ndarray
    sl2vl_base: np.ndarray
    vl_arb: np.ndarray
    counters: np.ndarray
    detail_counters: np.ndarray
    vl_counters: np.ndarray
    sl_counters: np.ndarray
    lane_counters: np.ndarray
    fec_histogram: np.ndarray
    module_info: np.ndarray
    op_code: np.ndarray
    sample_control: np.ndarray
    sample_ps: np.ndarray
    sample_count: np.ndarray
    class_traps: np.ndarray
    port_info_ext: np.ndarray
    cc_key_info: np.ndarray
    cc_log: np.ndarray
    cc_port_setting: np.ndarray
    cc_ca_setting: np.ndarray
    cc_table: np.ndarray
    cable_port: np.ndarray
    cable_length_m: np.ndarray
    cable_medium: np.ndarray
    cable_ber: np.ndarray
    cable_listed: np.ndarray
    switch_node: np.ndarray
    switch_info: np.ndarray
    cc_switch_setting: np.ndarray
    lft: np.ndarray
    mft: np.ndarray
    ar_info: np.ndarray
    ar_group: np.ndarray
    ar_lft: np.ndarray
    sharp_of_node: np.ndarray
    sharp_node: np.ndarray
    sharp_cap: np.ndarray
    sharp_qp_used: np.ndarray
    sharp_qp: np.ndarray
    sharp_tree: np.ndarray
    sharp_child: np.ndarray
    sharp_quota: np.ndarray
    vport_base: np.ndarray
    virtualization: np.ndarray
    vport_enabled: np.ndarray
    vport_info: np.ndarray
    vport_guids: np.ndarray
    vport_pkeys: np.ndarray
    vnode_info: np.ndarray
    vnode_desc: np.ndarray
    pkeys: np.ndarray
    guids: np.ndarray
    sl2vl: np.ndarray

    def __init__(self, sizes: Sizes, name: str = "", allocate: Callable[..., np.ndarray] = np.zeros):
        """Allocate arrays of ``sizes``, filled with zeros. A running fabric passes an
        ``allocate(shape, dtype)`` that places them in its shared mapping."""
        self.name = name
        self.sizes = sizes
        self.source = Source()
        self.port_label: dict[int, str] = {}
        self.node_system: dict[int, str] = {}
        for c in COLUMNS:
            column = allocate(sizes.shape(c.dims), c.dtype)
            if c.fill:
                column[...] = c.fill
            setattr(self, c.name, column)

    # -- addressing --

    def port(self, node: Any, portnum: Any) -> Any:
        """Return the row of port ``portnum`` of ``node``. Both are scalars or columns."""
        return self.node_base[node] + portnum

    def ports_of(self, node: int, *, port0: bool = False) -> range:
        """Return the rows of the physical ports of ``node``. With ``port0``, the management port of
        a switch comes first."""
        base, n = int(self.node_base[node]), int(self.node_nports[node])
        first = 0 if port0 and self.node_type[node] == NodeType.SWITCH else 1
        return range(base + first, base + n + 1)

    @property
    def is_switch(self) -> np.ndarray:
        """Mask of the switches (bool[nodes])."""
        return self.node_type == NodeType.SWITCH

    @property
    def is_host(self) -> np.ndarray:
        """Mask of the hosts (bool[nodes]), as defined by :func:`softib.iba.devices.is_host`."""
        return is_host(self.node_type, self.node_desc)

    @property
    def cas(self) -> np.ndarray:
        """Return the nodes that are channel adapters, including SHARP aggregation nodes."""
        return np.flatnonzero(self.node_type == NodeType.CA)

    def node_name(self, node: int) -> str:
        """Return the NodeDescription as text, or the GUID if the description is empty."""
        return field_text(self.node_desc[node]) or f"{int(self.node_guid[node]):#018x}"

    def node_names(self) -> list[str]:
        """Return :meth:`node_name` of every node."""
        raw = self.node_desc.view(f"S{self.node_desc.shape[1]}").ravel().tolist()
        together = b"\n".join(raw).decode("utf-8", "replace")
        # true for nearly all fabrics
        if together.count("\n") == len(raw) - 1 and together.replace("\n", "").isprintable():
            names = together.split("\n")
        else:
            names = [field_text(text) for text in raw]
        return [name or f"{guid:#018x}" for name, guid in zip(names, self.node_guid.tolist(), strict=True)]

    def port_name(self, port: int) -> str:
        """Return the port's name in the form used by messages and fabric files, for example
        ``leaf-3[40]``."""
        return f"{self.node_name(int(self.port_node[port]))}[{int(self.port_num[port])}]"

    # -- common columns of PortInfo --

    @property
    def lid(self) -> np.ndarray:
        """Base LID of each port (uint16[ports])."""
        return PortInfo.lid.get(self.port_info)

    @property
    def lmc(self) -> np.ndarray:
        """LMC of each port."""
        return PortInfo.lmc.get(self.port_info)

    @property
    def port_state(self) -> np.ndarray:
        """PortState of each port."""
        return PortInfo.port_state.get(self.port_info)

    @property
    def linked(self) -> np.ndarray:
        """Return a mask (bool[ports]) of the ports that have a cable with a known peer."""
        return self.port_peer >= 0

    def end_ports(self) -> np.ndarray:
        """Return the ports that have LIDs, ascending: every linked CA port, and port 0 of every
        switch."""
        is_sw = self.is_switch[self.port_node]
        return np.flatnonzero((is_sw & (self.port_num == 0)) | (~is_sw & self.linked))

    def copy(self) -> Fabric:
        """Return a copy that shares no arrays with this fabric."""
        new = copy.copy(self)
        new.sizes = copy.copy(self.sizes)
        for c in COLUMNS:
            column = getattr(self, c.name)
            unwritten = c.name in LAZY_COLUMNS and not column.view(np.uint8).any()
            setattr(new, c.name, np.zeros(column.shape, column.dtype) if unwritten else column.copy())
        new.source = copy.deepcopy(self.source)
        new.port_label, new.node_system = dict(self.port_label), dict(self.node_system)
        return new

    @property
    def nbytes(self) -> int:
        """Return the size of all columns in bytes. (Memory pages of untouched tables are not
        allocated yet.)"""
        return sum(int(getattr(self, c.name).nbytes) for c in COLUMNS)

    def __repr__(self) -> str:
        s = self.sizes
        return (
            f"<Fabric {self.name!r}: {counted(s.switches, 'switch')}, {s.nodes - s.switches} CAs, "
            f"{counted(s.cables, 'cable')}>"
        )
