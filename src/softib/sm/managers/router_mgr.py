"""Routers to other subnets: OpenSM's prefix routes (opensm(8), PREFIX ROUTES), and the subnets that
routers report (:mod:`softib.iba.vendor.router`).

Each sweep reads the tables of routers, and each light sweep checks them for changes. If a router
does not support these attributes, or reports no subnet, it is assumed to lead to every subnet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.iba.constants import NodeType, SmpAttr
from softib.iba.vendor.router import ADJACENT_BLOCK, NEXT_HOP_BLOCK, SITE_LOCAL, AdjacentSubnet, NextHop, RouterInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database

__all__ = ["ROUTER_ATTRIBUTES", "TAG_BLOCKS", "PrefixRoute", "RouterTables", "parse_prefix_routes"]


ANY = "*"


@dataclass(frozen=True)
class PrefixRoute:
    """``prefix``: prefix of another subnet; None means all. ``guid``: PortGUID of the router's port
    in this subnet; None means any router."""

    prefix: int | None
    guid: int | None


def parse_prefix_routes(text: str, name: str) -> tuple[PrefixRoute, ...]:
    """Return one entry per line of ``text``: prefix and PortGUID, in hexadecimal, or ``*`` for any.
    ``#`` begins a comment. If several lines have the same prefix, the first is used.

    Raises :class:`InputError` with file and line (OpenSM logs and continues).
    """
    routes = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        numbers = [_number(word) for word in fields]
        if len(fields) != 2 or -1 in numbers:
            raise InputError(
                f"{name}:{number}: {' '.join(fields)[:60]!r} is not a prefix route; use a prefix and a router's  "
                f"PortGUID, for example "
                "0xfec0000000000002 0x0002c90300000001, or * for any"
            )
        routes.append(PrefixRoute(numbers[0], numbers[1]))
    return tuple(routes)


def _number(word: str) -> int | None:
    """Return the number; None for ``*``, -1 if it is not a 64-bit number."""
    if word == ANY:
        return None
    try:
        value = int(word, 16)
    except ValueError:
        return -1
    return value if 0 < value < 1 << 64 else -1


INFO, NEXT, ADJACENT = int(SmpAttr.MLNX_ROUTER_INFO), int(SmpAttr.MLNX_NEXT_HOPS), int(SmpAttr.MLNX_ADJACENT_SUBNETS)
ROUTER_ATTRIBUTES = (INFO, NEXT, ADJACENT)
TAG_BLOCKS = 1 << 16
"""Tags of table requests are port * TAG_BLOCKS + block."""
Image = tuple[int, int]
"""(attribute, block)."""


class RouterTables:
    """Answers of routers, by PortGUID of the router's port in this subnet: uint8[64] by (attribute,
    block)."""

    def __init__(self) -> None:
        self.held: dict[int, dict[Image, np.ndarray]] = {}

    def ports(self, db: Database) -> np.ndarray:
        """Return the ports of routers that have a link and may support the attributes."""
        routers = (db.node_type == NodeType.ROUTER) & db.is_mellanox
        if not routers.any():
            return np.zeros(0, np.int64)
        ports = np.flatnonzero(routers[db.port_node] & db.has_port_info)
        return ports[np.isin(ports, db.end_ports())]

    # -- a sweep --

    def ask(self, db: Database, queue: RequestQueue) -> None:
        """Queue a Get(RouterInfo) for each router; earlier answers are discarded. Tags are ports."""
        self.held.clear()
        ports = self.ports(db)
        queue.get(INFO, db.port_route[ports], ports * TAG_BLOCKS)

    def ask_tables(self, db: Database, queue: RequestQueue) -> None:
        """Queue a Get for each block that has records."""
        self._ask(db, queue, (NEXT, ADJACENT))

    def reread(self, db: Database, queue: RequestQueue) -> None:
        """Queue a Get for every attribute and block that is stored."""
        self._ask(db, queue, ROUTER_ATTRIBUTES)

    def _ask(self, db: Database, queue: RequestQueue, attrs: Iterable[int]) -> None:
        ports = [p for p in self.ports(db).tolist() if int(db.port_guid[p]) in self.held]
        for attr in attrs:
            rows = [(p, b) for p in ports for b in range(self._blocks(int(db.port_guid[p]), attr))]
            at = np.array([p for p, _ in rows], np.int64)
            block = np.array([b for _, b in rows], np.int64)
            queue.get(attr, db.port_route[at], at * TAG_BLOCKS + block, block)

    def _blocks(self, guid: int, attr: int) -> int:
        info = self.held[guid].get((INFO, 0))
        if attr == INFO or info is None:
            return int(attr == INFO)
        if attr == NEXT:
            return min(-(-int(RouterInfo.next_hop_table_top.get(info)) // NEXT_HOP_BLOCK), TAG_BLOCKS)
        return -(-int(RouterInfo.adjacent_table_top.get(info)) // ADJACENT_BLOCK)

    def heard(self, db: Database, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers (uint8[n, 64])."""
        for tag, image in zip(tags.tolist(), data, strict=True):
            guid = int(db.port_guid[tag // TAG_BLOCKS])
            self.held.setdefault(guid, {})[attr, tag % TAG_BLOCKS] = image.copy()

    def differ(self, db: Database, attr: int, tags: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return the tags of :meth:`reread` whose answers differ from the stored ones."""
        held = [
            self.held.get(int(db.port_guid[tag // TAG_BLOCKS]), {}).get((attr, tag % TAG_BLOCKS))
            for tag in tags.tolist()
        ]
        same = [a is not None and bool((a == b).all()) for a, b in zip(held, data, strict=True)]
        return tags[~np.array(same, bool)]

    # -- interpretation --

    def prefixes(self, guid: int) -> set[int]:
        """Return the prefixes of the subnets that the router with this port reports."""
        prefixes: set[int] = set()
        held = self.held.get(guid, {})
        info = held.get((INFO, 0))
        if info is None:
            return prefixes
        for (attr, block), image in held.items():
            if attr == NEXT:
                there = int(RouterInfo.next_hop_table_top.get(info)) - block * NEXT_HOP_BLOCK
                rows = image.reshape(NEXT_HOP_BLOCK, NextHop.size)[: max(there, 0)]
                prefixes |= set(NextHop.subnet_prefix.get(rows).tolist())
            elif attr == ADJACENT:
                there = int(RouterInfo.adjacent_table_top.get(info)) - block * ADJACENT_BLOCK
                rows = image.reshape(ADJACENT_BLOCK, AdjacentSubnet.size)[: max(there, 0)]
                prefixes |= {SITE_LOCAL | n for n in AdjacentSubnet.subnet_prefix.get(rows).tolist()}
        return prefixes
