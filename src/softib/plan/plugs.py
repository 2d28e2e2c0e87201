"""Plugs and cables: which links share a cage, and which items to order for the links.

An NDR or XDR switch has two ports in a cage, and a cage holds one plug. So both links of a cage are copper, or both are
optical. A copper plug leads to one other cage (twin-port cable) or to two hosts (splitter); a transceiver serves both
ports. Older generations have one port per cage, and cables with fixed ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from softib.errors import InputError
from softib.fabric.columns import CableMedium
from softib.fabric.model import Fabric
from softib.iba.catalogue import ADAPTER_OF, CABLES, SWITCH_OF, Cable, ethernet_switch

__all__ = [
    "TWIN_PORT",
    "KnownPower",
    "Links",
    "Order",
    "added",
    "cage",
    "links_of",
    "management_power",
    "media_of",
    "orders_of",
    "power_of",
    "watts_of",
]

TWIN_PORT = frozenset({"NDR", "XDR"})
"""Generations whose switches have two ports in a cage (manuals of QM9700 and Q3400)."""
FIBRE = frozenset({"MMF", "SMF"})
"""Media that consist of transceivers with a fibre between them; the others are cables with fixed ends."""
PORTS = 1 << 9
"""A number that is larger than the number of ports of any device."""


def cage(portnum: int, generation: str) -> tuple[int, int]:
    """Return (cage, port in the cage) of a switch port; both are counted from 1."""
    return ((portnum + 1) // 2, 2 - portnum % 2) if generation in TWIN_PORT else (portnum, 1)


def media_of(generation: str) -> tuple[Cable, ...]:
    """Return the kinds of cable of a generation, cheapest and shortest first. Raises
    :class:`InputError` if the catalogue has none."""
    media = tuple(c for c in CABLES if c.generation == generation)
    if not media:
        generations = ", ".join(dict.fromkeys(c.generation for c in CABLES))
        raise InputError(f"the reach of cables of {generation} is not published; use one of {generations}")
    return media


@dataclass(frozen=True)
class Links:
    """Every cable of a fabric: ``node``, ``portnum`` int64[n, 2] and ``host`` bool[n, 2] of both
    ends, a switch first. ``row``: the cable's row in the fabric."""

    generation: str
    node: np.ndarray
    portnum: np.ndarray
    host: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    @property
    def cages(self) -> np.ndarray:
        """Number of the cage at each end (int64[n, 2])."""
        twin = self.generation in TWIN_PORT
        number = np.where(self.host, self.portnum, (self.portnum + 1) // 2 if twin else self.portnum)
        return self.node * PORTS + number


@dataclass(frozen=True)
class Order:
    """An order of ``count`` pieces. ``role``: ``cable``, ``splitter``, ``cage`` or ``host`` (transceiver for a switch
    or an adapter), or ``fibre``; ``metres``: 0 for transceivers."""

    role: str
    medium: str
    metres: float
    count: int
    part: str
    """The vendor's order number, empty if unknown."""


def links_of(fabric: Fabric, generation: str) -> Links:
    """The cables of ``fabric`` with both ends known."""
    row = np.flatnonzero((fabric.cable_port >= 0).all(axis=1))
    ports = fabric.cable_port[row]
    host = fabric.switch_of_node[fabric.port_node[ports]] < 0
    flip = host[:, 0] & ~host[:, 1]
    ports, host = np.where(flip[:, None], ports[:, ::-1], ports), np.where(flip[:, None], host[:, ::-1], host)
    return Links(
        generation,
        fabric.port_node[ports].astype(np.int64),
        fabric.port_num[ports].astype(np.int64),
        host,
        row,
    )


def share_cages(links: Links, kind: np.ndarray) -> np.ndarray:
    """Return the kind of each link (index into :func:`media_of`), where links of one cage share a plug: the cheapest
    kind that is at least ``kind`` and that the cages at both ends accept."""
    media = media_of(links.generation)
    kind = kind.copy()
    if links.generation not in TWIN_PORT or not len(links):
        return kind
    optical = np.array([c.medium in FIBRE for c in media])
    if not optical.any():
        return kind
    first_optical = int(optical.argmax())
    cages = links.cages
    numbers, of_end = np.unique(cages, return_inverse=True)
    of_end = of_end.reshape(cages.shape)
    switch = ~links.host
    leads = np.where(links.host[:, ::-1], -1, cages[:, ::-1])  # where a plug leads: to one cage, or to hosts
    low, high = np.full(len(numbers), np.iinfo(np.int64).max), np.full(len(numbers), -2)
    np.minimum.at(low, of_end[switch], leads[switch])
    np.maximum.at(high, of_end[switch], leads[switch])
    forked = low != high
    kind[(forked[of_end] & switch).any(axis=1) & (kind < first_optical)] = first_optical
    while True:
        most = np.zeros(len(numbers), kind.dtype)
        np.maximum.at(most, of_end, kind[:, None])
        raised = np.maximum(kind, np.where(switch, most[of_end], 0).max(axis=1))
        if (raised == kind).all():
            return kind
        kind = raised


def orders_of(links: Links, kind: np.ndarray, metres: np.ndarray) -> list[Order]:
    """Return the items to order for links of ``kind`` (after :func:`share_cages`) and ``metres``; both links of a
    copper plug get the longer of their two lengths."""
    media = media_of(links.generation)
    counts: Counter[tuple[str, int, float]] = Counter()
    fibre = np.array([c.medium in FIBRE for c in media])[kind] if len(links) else np.zeros(0, bool)
    cages = links.cages
    twin = links.generation in TWIN_PORT
    for k in range(len(media)):
        rows = np.flatnonzero(kind == k)
        if not len(rows):
            continue
        if fibre[rows[0]]:
            switch_cages = np.unique(cages[rows][~links.host[rows]])
            counts["cage", k, 0.0] += len(switch_cages)
            counts["host", k, 0.0] += int(links.host[rows].sum())
            for m in metres[rows].tolist():
                counts["fibre", k, m] += 1
            continue
        to_host = links.host[rows, 1]
        key = np.where(to_host & twin, cages[rows, 0] * 2, -1)
        pair = np.sort(cages[rows], axis=1)
        # The links of one plug are those from a switch's cage to hosts, or those of a pair of cages.
        plugs = np.stack([np.where(key >= 0, key, pair[:, 0] * 2 + 1), np.where(key >= 0, 0, pair[:, 1])], axis=1)
        if not twin:
            plugs = np.stack([rows, rows], axis=1)
        _, plug = np.unique(plugs, axis=0, return_inverse=True)
        plug = plug.ravel()
        longest = np.zeros(plug.max() + 1)
        np.maximum.at(longest, plug, metres[rows])
        splits = np.zeros(plug.max() + 1, bool)
        splits[plug] = to_host & twin
        for m, split in zip(longest.tolist(), splits.tolist(), strict=True):
            counts["splitter" if split else "cable", k, m] += 1
    return [
        Order(role, media[k].medium, m, n, _part(media[k], role, m))
        for (role, k, m), n in sorted(counts.items(), key=lambda item: (item[0][1], item[0][0], item[0][2]))
    ]


def added(orders: Iterable[Order]) -> tuple[Order, ...]:
    """Return ``orders`` with one order for each item, which has the total number of pieces, sorted by length."""
    counts: dict[tuple[str, str], Counter[Order]] = {}
    for order in orders:
        counts.setdefault((order.medium, order.role), Counter())[replace(order, count=0)] += order.count
    lengths = (sorted(items.items(), key=lambda pair: pair[0].metres) for items in counts.values())
    return tuple(replace(item, count=n) for items in lengths for item, n in items)


def _part(kind: Cable, role: str, metres: float) -> str:
    """Return the order number with the length in the vendor's notation, for example ``MFP7E10-N010`` for 10 m. (Half
    metres have a letter: 00A is 0.5 m.)"""
    stem = kind.orders.get(role, "")
    if not stem or not metres:
        return stem
    whole, half = int(metres), metres % 1
    return f"{stem}{whole:02d}A" if half else f"{stem}{whole:03d}"


class KnownPower(NamedTuple):
    """Power of devices as their vendors publish it."""

    watts: float
    """Sum over the devices with a published figure."""
    unknown: Counter[str]
    """Number of devices without published power, by name."""


def watts_of(links: Links, kind: np.ndarray) -> KnownPower:
    """Return the power of all plugs."""
    media = media_of(links.generation)
    watts, unknown = 0.0, Counter[str]()
    cages = links.cages
    for k, row in enumerate(media):
        rows = np.flatnonzero(kind == k)
        in_switches = len(np.unique(cages[rows][~links.host[rows]]))
        in_hosts = int(links.host[rows].sum())
        for number, watt in ((in_switches, row.power_w), (in_hosts, row.host_power_w)):
            if number and watt is None:
                unknown[row.name] += number
            elif number:
                watts += number * (watt or 0.0)
    return KnownPower(watts, unknown)


def power_of(links: Links, kind: np.ndarray | None, switches: int) -> KnownPower:
    """Return the power of switches, adapters and plugs. ``kind``: None if the catalogue has no cables of the
    generation."""
    generation = links.generation
    watts, unknown = 0.0, Counter[str]()
    if kind is not None:
        watts, unknown = watts_of(links, kind)
    elif len(links):
        unknown[f"cables of {generation}"] += len(links)
    for part, number in ((SWITCH_OF[generation], switches), (ADAPTER_OF[generation], int(links.host.sum()))):
        if part.power_w is None:
            unknown[part.name] += number
        else:
            watts += part.power_w * number
    return KnownPower(watts, unknown)


def management_power(switches: int) -> KnownPower:
    """Return the power of management switches."""
    part = ethernet_switch(1.0)
    if not switches or part.power_w is not None:
        return KnownPower(switches * (part.power_w or 0.0), Counter())
    return KnownPower(0.0, Counter({part.name: switches}))


def medium_codes(links: Links, kind: np.ndarray) -> np.ndarray:
    """Return ``kind`` as codes of :class:`CableMedium` (uint8[n])."""
    return np.array([CableMedium.NAMES.index(c.medium) for c in media_of(links.generation)], np.uint8)[kind]
