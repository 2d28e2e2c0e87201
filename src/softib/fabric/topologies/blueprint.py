"""A fabric under construction, with the ground truth of its structure. The class uses
:class:`FabricBuilder`, names and counts nodes and cables, and records their roles (level, rail,
group, coordinates, tier) in ``fabric.source.generator``. Tests of structure recognition compare
their results with these roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softib.errors import LimitError
from softib.fabric.builder import GUID_BASE, FabricBuilder
from softib.fabric.identity import generated_guids
from softib.fabric.model import Fabric, Source
from softib.fabric.topologies.wiring import Wiring
from softib.iba.constants import NodeType
from softib.iba.devices import AGGREGATION_NODE_DESC, AGGREGATION_NODE_ID
from softib.plural import counted

__all__ = ["MAX_HOSTS", "MAX_SWITCHES", "RECORDS", "Blueprint", "check_size", "host_names", "numbered"]

MAX_HOSTS, MAX_SWITCHES, MAX_BYTES = 1 << 20, 1 << 16, 32 << 30
"""Limits of a fabric's size, so that it fits in memory."""

RECORDS = frozenset({"speeds", "capabilities", "unlinked"})
"""Kinds of data that a generated fabric records: all hardware data, but no values that a subnet
manager writes."""


def numbered(stem: str, count: int, width: int = 1) -> list[str]:
    """Return the names ``stem-1`` … ``stem-count``, with numbers padded to ``width`` digits."""
    return [f"{stem}-{i:0{width}d}" for i in range(1, count + 1)]


def host_names(count: int, adapters: int = 1) -> list[str]:
    """Return the names of ``count`` adapters: ``host-0001`` … (with at least four digits). If each
    host has several ``adapters``, the names are ``host-0001 mlx5_0``, ``host-0001 mlx5_1`` …"""
    hosts = -(-count // adapters)
    names = numbered("host", hosts, max(4, len(str(hosts))))
    if adapters == 1:
        return names
    return [f"{names[i // adapters]} mlx5_{i % adapters}" for i in range(count)]


def check_size(kind: str, hosts: int, switches: int, radix: int) -> None:
    """Raise :class:`LimitError` if the arrays would not fit in memory, before they are allocated.

    Sizes follow from :mod:`softib.fabric.columns`: a switch has an LFT of 48 KiB, an MFT of 2 KiB
    for 16 ports, about 0.5 KB per port, and 8 bytes of SL2VL for each pair of ports. A host has 1.1
    KB.
    """
    ports = radix + 1
    need = hosts * 1100 + switches * (49152 + 2048 * -(-ports // 16) + 520 * ports + 8 * ports**2)
    if hosts > MAX_HOSTS or switches > MAX_SWITCHES or need > MAX_BYTES:
        raise LimitError(
            f"{kind}: {counted(hosts, 'host')} and {switches} {radix}-port switches ({need / 1e9:.0f} GB of tables) "
            f"exceed the limits of a fabric in memory: {MAX_HOSTS} hosts, {MAX_SWITCHES} switches, "
            f"{MAX_BYTES >> 30} GiB"
        )


class Blueprint:
    """Collect switches, hosts and links of one generated fabric. Each array argument is a column
    with one entry per row."""

    def __init__(self, kind: str, values: dict[str, Any]):
        self.kind, self.values = kind, values
        self.builder = FabricBuilder(values["name"])
        self.tiers: list[str] = []
        self._names: list[str] = []
        self._cable_node: list[np.ndarray] = []
        self._levels: list[np.ndarray] = []
        self._labels: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._tier_of: list[np.ndarray] = []
        self._hollow: list[tuple[np.ndarray, int]] = []
        """Switches with an aggregation node, and for each the port that leads to it."""

    def switches(self, names: Sequence[str], ports: int, level: int = 1, **labels: Any) -> np.ndarray:
        """Add switches of ``ports`` ports at ``level`` (1 = switches with hosts). ``labels`` are
        columns of whole numbers."""
        inside = int(bool(self.values.get("aggregation_nodes")))
        index = self.builder.nodes(
            len(names),
            NodeType.SWITCH,
            ports + inside,
            desc=self._named(names),
            speed=self.values["generation"],
            sys_guid=None,
        )
        self._remember(index, level, labels)
        if inside:
            self._hollow.append((index, ports + 1))
        return index

    def hosts(self, names: Sequence[str], system: Any = None, **labels: Any) -> np.ndarray:
        """Add channel adapters with one port (level 0). ``system`` names for each host another row
        of these hosts; the GUID of that row becomes the host's SystemImageGUID."""
        speed = self.values["host_generation"] or self.values["generation"]
        sys_guid = None
        if system is not None:
            rows = np.asarray(system).astype(np.uint64) + np.uint64(self.builder.n_nodes)
            sys_guid = np.uint64(GUID_BASE) + (rows << np.uint64(8))
        index = self.builder.nodes(len(names), NodeType.CA, 1, desc=self._named(names), speed=speed, sys_guid=sys_guid)
        self._remember(index, 0, labels)
        return index

    def _named(self, names: Sequence[str]) -> Sequence[str]:
        """Return ``names`` with the prefix of the fabric, and remember them."""
        prefix = self.values["prefix"]
        full = [prefix + name for name in names] if prefix else names
        self._names += full
        return full

    def end_hosts(self, count: int, adapters: int, **labels: Any) -> np.ndarray:
        """Add ``count`` adapters in total, ``adapters`` per host (named by :func:`host_names`)."""
        system = None if adapters == 1 else np.arange(count) // adapters * adapters
        return self.hosts(host_names(count, adapters), system, **labels)

    def links(self, tier: str, node_a: Any, portnum_a: Any, node_b: Any, portnum_b: Any) -> None:
        """Add the cables of ``tier``. The arguments may have any shape, and are broadcast against
        each other."""
        columns = np.broadcast_arrays(*(np.asarray(v) for v in (node_a, portnum_a, node_b, portnum_b)))
        flat = [c.ravel() for c in columns]
        if tier not in self.tiers:
            self.tiers.append(tier)
        self._tier_of.append(np.full(len(flat[0]), self.tiers.index(tier), np.int8))
        if len(flat[0]):
            self.builder.links(*flat)
            self._cable_node.append(np.stack((flat[0], flat[2]), axis=1))

    def label(self, index: np.ndarray, **labels: Any) -> None:
        """Set labels of the nodes ``index``. Each label is a column with one whole number (or one
        row of them) per node."""
        for name, column in labels.items():
            values = np.asarray(column, np.int32)
            shape = (len(index), *values.shape[1:]) if values.ndim else (len(index),)
            self._labels.setdefault(name, []).append((index, np.broadcast_to(values, shape)))

    def _add_aggregation_nodes(self, switches: np.ndarray, portnum: int) -> None:
        """Add a SHARP aggregation node at port ``portnum`` of each of ``switches``. Its
        SystemImageGUID is the switch's."""
        n = len(switches)
        index = self.builder.nodes(
            n,
            NodeType.CA,
            1,
            desc=n * [AGGREGATION_NODE_DESC],
            speed=self.values["generation"],
            device_id=AGGREGATION_NODE_ID,
            sys_guid=generated_guids(switches),
        )
        self._remember(index, -1, {})
        self.links("aggregation", switches, portnum, index, 1)

    def _remember(self, index: np.ndarray, level: int, labels: dict[str, Any]) -> None:
        self._levels.append(np.full(len(index), level, np.int8))
        self.label(index, **labels)

    @property
    def node_level(self) -> np.ndarray:
        """Level of each node (0 = host), int8[nodes]."""
        return np.concatenate(self._levels)

    @property
    def wiring(self) -> Wiring:
        """Names and cables of the fabric, without aggregation nodes, before :meth:`build`."""
        cables = np.concatenate([np.zeros((0, 2), np.int32), *self._cable_node])
        return Wiring(self._names, self.node_level > 0, cables)

    def build(self) -> Fabric:
        """Return the fabric, powered on. ``source.generator`` holds its kind, its parameters, and
        the ground truth of its structure.

        Keys: ``kind``, ``params``, ``levels``, ``node_level`` int8[nodes] (0 = host, -1 =
        aggregation node), ``tiers`` and ``cable_tier`` int8[cables] (index into ``tiers``), and for
        each label ``node_<label>`` int32[nodes, …], -1 where it does not apply.
        """
        for switches, portnum in self._hollow:
            self._add_aggregation_nodes(switches, portnum)
        fabric = self.builder.build()
        levels = self.node_level
        truth: dict[str, Any] = {
            "kind": self.kind,
            "params": {k: v for k, v in self.values.items() if v is not None},
            "levels": int(levels.max()),
            "node_level": levels,
            "tiers": tuple(self.tiers),
            "cable_tier": np.concatenate([np.zeros(0, np.int8), *self._tier_of]),
        }
        for name, blocks in self._labels.items():
            column = np.full((self.builder.n_nodes, *blocks[0][1].shape[1:]), -1, np.int32)
            for index, values in blocks:
                column[index] = values
            truth[f"node_{name}"] = column
        fabric.source = Source(format="generated", records=RECORDS, generator=truth)
        return fabric
