"""Build a :class:`Fabric` from blocks of nodes and links, given as columns.

Generators add thousands of nodes with one call. Readers collect their records first, then add them in one call too::

    b = FabricBuilder("pod")
    leaf = b.nodes(4, NodeType.SWITCH, 36, desc=[f"leaf-{i}" for i in range(4)], speed="EDR")
    host = b.nodes(8, NodeType.CA, 1, desc=[f"host-{i}" for i in range(8)], speed="EDR")
    b.links(leaf[host_leaf], host_port, host, 1)
    fabric = b.build()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from softib.errors import LimitError, TopologyError
from softib.fabric.columns import CableMedium, Sizes
from softib.fabric.identity import GUID_BASE, complete, generated_guids
from softib.fabric.model import Fabric
from softib.fabric.power_cycle import power_on
from softib.fabric.power_up import ADVERTISED_FROM, advertise_fec, port_info_image, speed_codes, switch_info_image
from softib.iba.catalogue import Switch
from softib.iba.constants import MAX_SWITCH_PORTS, NodeType
from softib.iba.devices import DEVICES, MELLANOX, is_aggregation_node
from softib.iba.vendor.sharp import OTHER_TREES
from softib.plural import counted

__all__ = ["GUID_BASE", "FabricBuilder", "LinkColumns", "NodeColumns"]

CA_PKEYS, SWITCH_PKEYS = 128, 32
CA_GUIDS, SWITCH_GUIDS = 32, 1

_NODE_COLUMNS = ("node_type", "node_nports", "node_guid", "sys_guid", "vendor_id", "device_id", "revision")
_TABLES = ("pkey_cap", "external_pkey_cap", "guid_cap")


class NodeColumns(TypedDict, total=False):
    """Optional node columns: one value for all nodes, or one per node."""

    desc: Sequence[str] | None
    """NodeDescriptions."""
    node_guid: Any
    """In a column of GUIDs, vendor IDs or device IDs, 0 means that the source does not state the
    value. :mod:`softib.fabric.identity` then fills it in."""
    sys_guid: Any
    vendor_id: Any
    device_id: Any
    revision: Any
    speed: Any
    """Speeds that the ports *support*: a generation's name, or codes of :mod:`softib.iba.rates`."""
    lanes: Any
    """Lanes that the ports *support*."""
    pkey_cap: Any
    """NodeInfo.PartitionCap. In this column and the next two, 0 means the default table length."""
    external_pkey_cap: Any
    """SwitchInfo.PartitionEnforcementCap."""
    guid_cap: Any
    """PortInfo.GUIDCap. A GUID table has at least the default length."""


NODE_DEFAULTS: dict[str, Any] = {
    "desc": None,
    "node_guid": None,
    "sys_guid": None,
    "vendor_id": MELLANOX,
    "device_id": None,
    "revision": 0,
    "speed": "EDR",
    "lanes": 4,
    "pkey_cap": 0,
    "external_pkey_cap": 0,
    "guid_cap": 0,
}


class LinkColumns(TypedDict, total=False):
    """Optional cable columns."""

    speed: Any
    """*Active* speed (name or codes); 0 = the fastest that both ends support."""
    lanes: Any
    """*Active* lanes; 0 = the most that both ends support."""
    length_m: Any
    medium: Any
    ber: Any
    listed: Any
    """Number of the cable's ends (1 or 2) whose port records in the source list the cable."""


LINK_DEFAULTS: dict[str, Any] = {
    "speed": 0,
    "lanes": 0,
    "length_m": np.nan,
    "medium": CableMedium.UNKNOWN,
    "ber": 0.0,
    "listed": 2,
}


def _with_defaults(given: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return ``defaults`` updated with the given columns. Raises TypeError for an unknown name."""
    if unknown := given.keys() - defaults.keys():
        raise TypeError(f"no column {', '.join(sorted(unknown))}; the columns are {', '.join(defaults)}")
    return {**defaults, **given}


class FabricBuilder:
    """Collect nodes and links; :meth:`build` creates the arrays. Each list argument has one entry
    per node or link."""

    def __init__(self, name: str = "", lft_cap: int = 49152, mlids: int = 1024):
        self.name, self.lft_cap, self.mlids = name, lft_cap, mlids
        self.n_nodes = 0
        self._nodes: list[dict[str, np.ndarray]] = []
        self._links: list[dict[str, np.ndarray]] = []
        self._port_guids: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def nodes(
        self, count: int, node_type: int | np.ndarray, nports: int | np.ndarray, **columns: Unpack[NodeColumns]
    ) -> np.ndarray:
        """Add ``count`` nodes and return their indices (int32[count]).

        Missing GUIDs are generated (unique and deterministic). A missing part number becomes that
        of a device with the nodes' speed. Raises :class:`TopologyError` if a node has more ports
        than a switch can have.
        """
        index = np.arange(self.n_nodes, self.n_nodes + count, dtype=np.int32)
        if count and int(np.max(nports)) > MAX_SWITCH_PORTS:
            raise TopologyError(
                f"a node of {counted(int(np.max(nports)), 'port')}: a switch has at most {MAX_SWITCH_PORTS}"
            )
        given = _with_defaults(columns, NODE_DEFAULTS)
        desc = given.pop("desc")
        guid = given["node_guid"] = generated_guids(index) if given["node_guid"] is None else given["node_guid"]
        given["sys_guid"] = guid if given["sys_guid"] is None else given["sys_guid"]
        given["device_id"] = -1 if given["device_id"] is None else given["device_id"]
        given |= {"node_type": node_type, "node_nports": nports, "speed": speed_codes(given["speed"])}
        block = {k: np.broadcast_to(np.asarray(v), (count,)) for k, v in given.items()}
        block["desc"] = _desc_images(desc, count)
        self._nodes.append(block)
        self.n_nodes += count
        return index

    def links(self, node_a: Any, portnum_a: Any, node_b: Any, portnum_b: Any, **columns: Unpack[LinkColumns]) -> None:
        """Add cables between (node, portnum) pairs. ``node_b`` -1 means that the peer is unknown."""
        given = _with_defaults(columns, LINK_DEFAULTS)
        given |= {
            "node_a": node_a,
            "portnum_a": portnum_a,
            "node_b": node_b,
            "portnum_b": portnum_b,
            "speed": speed_codes(given["speed"]),
        }
        arrays = {k: np.atleast_1d(np.asarray(v)) for k, v in given.items()}
        n = max(len(v) for v in arrays.values()) if all(len(v) for v in arrays.values()) else 0
        self._links.append({k: np.broadcast_to(v, (n,)) if n else v[:0] for k, v in arrays.items()})

    def port_guids(self, node: Any, portnum: Any, guid: Any) -> None:
        """Set PortGUIDs of CA ports, instead of the default NodeGUID + portnum."""
        self._port_guids.append(tuple(np.atleast_1d(np.asarray(v)) for v in (node, portnum, guid)))  # type: ignore[arg-type]

    def build(self) -> Fabric:
        """Create the fabric, with all devices powered on. Raises :class:`TopologyError` if two
        cables use one port."""
        node = _concat(self._nodes, (*_NODE_COLUMNS, *_TABLES, "speed", "lanes", "desc"))
        link = _concat(
            self._links,
            ("node_a", "portnum_a", "node_b", "portnum_b", "speed", "lanes", "length_m", "medium", "ber", "listed"),
        )
        is_sw = node["node_type"] == NodeType.SWITCH
        rows = node["node_nports"].astype(np.int64) + is_sw
        first = np.concatenate([[0], np.cumsum(rows)])
        port_node = np.repeat(np.arange(self.n_nodes), rows)
        portnum = np.arange(first[-1]) - np.repeat(first[:-1] - ~is_sw, rows)
        pkeys, guids = _table_lengths(node, port_node, portnum)
        f = Fabric(self._sizes(node, rows, is_sw, pkeys, guids, len(link["node_a"])), self.name)
        f.node_stated[:] = complete(node)
        for name in _NODE_COLUMNS:
            getattr(f, name)[:] = node[name]
        f.node_desc[:] = node["desc"].reshape(-1, 64)
        f.node_base[:] = first[:-1] - ~is_sw
        f.switch_node[:] = np.flatnonzero(is_sw)
        f.switch_of_node[f.switch_node] = np.arange(len(f.switch_node))
        f.port_node[:], f.port_num[:] = port_node, portnum
        f.pkey_cap[:], f.pkey_base[:], f.guid_base[:] = pkeys, _starts(pkeys), _starts(guids)
        on_switch = f.is_switch[f.port_node]
        f.sl2vl_base[:] = _starts(np.where(on_switch, f.node_nports[f.port_node].astype(np.int64) + 1, 1))
        self._place_guids(f)
        _plug_cables(f, link)
        _aggregation_nodes(f)
        _write_images(f, node["speed"], node["lanes"], link)
        power_on(f)
        return f

    def _sizes(
        self,
        node: dict[str, np.ndarray],
        rows: np.ndarray,
        is_sw: np.ndarray,
        pkeys: np.ndarray,
        guids: np.ndarray,
        cables: int,
    ) -> Sizes:
        nports = node["node_nports"].astype(np.int64)
        most = int(nports[is_sw].max()) if is_sw.any() else 0
        return Sizes(
            nodes=self.n_nodes,
            ports=int(rows.sum()),
            switches=int(is_sw.sum()),
            cables=cables,
            pkeys=int(pkeys.sum()),
            guids=int(guids.sum()),
            sl2vl_rows=int(nports[~is_sw].sum()) + int((rows[is_sw] ** 2).sum()),
            lft_cap=self.lft_cap,
            mlids=self.mlids,
            mft_positions=max(1, -(-(most + 1) // 16)),
            sharps=len(_sharps(node["desc"].reshape(-1, 64), is_sw)),
        )

    def _place_guids(self, f: Fabric) -> None:
        on_switch = f.is_switch[f.port_node]
        f.port_guid[:] = f.node_guid[f.port_node] + np.where(on_switch, 0, f.port_num).astype(np.uint64)
        for node, portnum, guid in self._port_guids:
            f.port_guid[f.node_base[node] + portnum] = guid


def _table_lengths(
    node: dict[str, np.ndarray], port_node: np.ndarray, portnum: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of entries in each port's P_Key table and in its GUID table. External ports
    of switches have no GUID table (0 entries)."""
    on_switch = (node["node_type"] == NodeType.SWITCH)[port_node]
    external = on_switch & (portnum > 0)
    stated, enforced, guids = (node[n].astype(np.int64)[port_node] for n in _TABLES)
    pkeys = np.where(
        external,
        np.where(enforced > 0, enforced, SWITCH_PKEYS),
        np.where(stated > 0, stated, np.where(on_switch, SWITCH_PKEYS, CA_PKEYS)),
    )
    usual = np.where(on_switch, SWITCH_GUIDS, CA_GUIDS)
    return pkeys, np.where(external, 0, np.maximum(guids, usual))


def _plug_cables(f: Fabric, link: dict[str, np.ndarray]) -> None:
    a = (f.node_base[link["node_a"]] + link["portnum_a"]).astype(np.int64)
    has_end = link["node_b"] >= 0
    b = np.where(has_end, f.node_base[np.where(has_end, link["node_b"], 0)] + link["portnum_b"], -1).astype(np.int64)
    for end, num in (("node_a", "portnum_a"), ("node_b", "portnum_b")):
        node, portnum = link[end], link[num]
        bad = (node >= 0) & ((portnum < 1) | (portnum > f.node_nports[np.maximum(node, 0)]))
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            name, n = f.node_name(int(node[i])), int(f.node_nports[node[i]])
            raise TopologyError(f"{name} has no port {int(portnum[i])}; its ports are 1 to {n}")
    ends = np.concatenate([a, b[has_end & (b != a)]])
    used, times = np.unique(ends, return_counts=True)
    if (times > 1).any():
        raise TopologyError(f"two cables use port {f.port_name(int(used[times > 1][0]))}")
    cables = np.arange(len(a), dtype=np.int32)
    f.cable_port[:, 0], f.cable_port[:, 1] = a, b
    f.port_peer[a], f.port_cable[a] = b, cables
    f.port_peer[b[has_end]], f.port_cable[b[has_end]] = a[has_end], cables[has_end]
    f.cable_length_m[:], f.cable_medium[:] = link["length_m"], link["medium"]
    f.cable_ber[:], f.cable_listed[:] = link["ber"], link["listed"]


def _sharps(desc: np.ndarray, is_sw: np.ndarray) -> np.ndarray:
    """Return the nodes that are SHARP aggregation nodes (rows of the node arrays)."""
    return np.flatnonzero(is_aggregation_node(desc) & ~is_sw)


def _aggregation_nodes(f: Fabric) -> None:
    """Fill the arrays of aggregation nodes. An aggregation node supports the same number of trees
    as its switch."""
    f.sharp_node[:] = _sharps(f.node_desc, f.is_switch)
    f.sharp_of_node[f.sharp_node] = np.arange(f.sizes.sharps)
    has_port = f.node_nports[f.sharp_node] > 0
    peer = np.where(has_port, f.port_peer[np.where(has_port, f.node_base[f.sharp_node] + 1, 0)], -1)
    device = np.where(peer >= 0, f.device_id[f.port_node[peer]], 0)
    for row, number in enumerate(device.tolist()):
        part = DEVICES.get(number)
        f.sharp_cap[row, :2] = (
            (part.sharp_trees, part.sharp_streaming_trees) if isinstance(part, Switch) else (OTHER_TREES, 0)
        )


def _write_images(f: Fabric, node_speed: np.ndarray, node_lanes: np.ndarray, link: dict[str, np.ndarray]) -> None:
    supported, lanes = node_speed[f.port_node].astype(np.int64), node_lanes[f.port_node].astype(np.int64)
    active, active_lanes = np.zeros_like(supported), np.zeros_like(lanes)
    peer = np.where(f.linked, f.port_peer, 0)
    active[f.linked] = np.minimum(supported, supported[peer])[f.linked]
    active_lanes[f.linked] = np.minimum(lanes, lanes[peer])[f.linked]
    for end in (0, 1):
        rows = f.cable_port[:, end]
        has_speed, has_lanes = (rows >= 0) & (link["speed"] > 0), (rows >= 0) & (link["lanes"] > 0)
        active[rows[has_speed]], active_lanes[rows[has_lanes]] = link["speed"][has_speed], link["lanes"][has_lanes]
    supported, lanes = np.maximum(supported, active), np.maximum(lanes, active_lanes)
    f.port_info[:], f.port_mlnx_speed[:] = port_info_image(f, supported, lanes, active, active_lanes)
    f.switch_info[:] = switch_info_image(f)
    advertise_fec(f, ADVERTISED_FROM)


def _starts(lengths: np.ndarray) -> np.ndarray:
    ends = np.cumsum(lengths, dtype=np.int64)
    if len(ends) and int(ends[-1]) > np.iinfo(np.int32).max:
        raise LimitError(f"tables of {counted(int(ends[-1]), 'row')}: more than 2^31 cannot be addressed")
    return ends - lengths


def _concat(blocks: list[dict[str, np.ndarray]], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    if not blocks:
        return {n: np.zeros((0, 64) if n == "desc" else 0, np.uint8 if n == "desc" else np.int64) for n in names}
    return {n: np.concatenate([b[n] for b in blocks]) for n in names}


def _desc_images(desc: Sequence[str] | None, count: int) -> np.ndarray:
    if desc is None:
        return np.zeros((count, 64), np.uint8)
    if len(desc) != count:
        raise ValueError(f"{len(desc)} descriptions for {counted(count, 'node')}")
    raw = b"".join(d.encode()[:64].ljust(64, b"\0") for d in desc)
    return np.frombuffer(raw, np.uint8).reshape(count, 64)
