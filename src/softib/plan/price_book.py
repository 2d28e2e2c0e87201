"""The cost of a fabric, from the items of the fabric and a book of prices. Every price has a range and a source. No
price is assumed for an item without one; results name such items."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from softib.errors import InputError
from softib.fabric.sharp_trees import inside_switches
from softib.input_files import read_text
from softib.plain_yaml import load_plain_yaml
from softib.plan.checked import checked

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["CostBook", "Price", "Range", "price_of", "read_book"]


class Range(BaseModel):
    """A price from ``low`` to ``high``, and its source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float = Field(ge=0)
    high: float = Field(ge=0)
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}")
        return self


class CablePrice(Range):
    """The price of a cable of at most ``up_to_m`` metres, including both ends."""

    up_to_m: float = Field(gt=0)


class OrderPrice(Range):
    """The price of one piece of an :class:`softib.plan.plugs.Order` with this ``role`` and ``medium``, of at most
    ``up_to_m`` metres (None: of any length)."""

    role: Literal["cable", "splitter", "cage", "host", "fibre"]
    media: tuple[str, ...]
    up_to_m: float | None = Field(default=None, gt=0)


class Running(BaseModel):
    """Running costs of a fabric. ``kwh``: price of a kilowatt-hour; ``pue``: power of the hall divided by that of
    its devices; ``links_fail``, ``switches_fail``: share that fails in a month; ``restock_months``: time that
    spares must last; ``years``: duration for which costs are compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kwh: Range | None = None
    pue: Range | None = None
    links_fail: Range | None = None
    switches_fail: Range | None = None
    restock_months: float = Field(default=3, gt=0, le=120)
    years: float = Field(default=5, gt=0, le=50)


class CostBook(BaseModel):
    """Prices by network: a generation, or ``ethernet-400`` for RoCE and TCP at 400 Gb/s.
    ``switches``: price of a whole switch, with the catalogue's number of ports; ``orders``: prices of single plugs and
    cables; ``management_switch``: price of a switch with 48 ports of 1 Gb/s; ``management_cable``: price of a cable to
    such a port."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(min_length=1)
    date: str = Field(min_length=1)
    adapters: dict[str, Range] = Field(default_factory=dict)
    switches: dict[str, Range] = Field(default_factory=dict)
    switch_ports: dict[str, Range] = Field(default_factory=dict)
    cables: dict[str, list[CablePrice]] = Field(default_factory=dict)
    orders: dict[str, list[OrderPrice]] = Field(default_factory=dict)
    management_switch: Range | None = None
    management_cable: Range | None = None
    running: Running = Field(default_factory=Running)

    def order(self, generation: str, role: str, medium: str, metres: float) -> Range | None:
        """Return the price of one piece, None if the book has none."""
        fits = (
            p
            for p in self.orders.get(generation, ())
            if p.role == role and medium in p.media and (p.up_to_m is None or metres <= p.up_to_m)
        )
        return min(fits, key=lambda p: p.up_to_m or math.inf, default=None)


@dataclass(frozen=True)
class Price:
    """Price of a whole fabric, from ``low`` to ``high``. ``missing``: items without a price in the book; if there are
    any, the fabric has no price, and both are 0."""

    low: float
    high: float
    missing: tuple[str, ...]
    short: int = 0
    """Number of cables of unknown length, which count as the shortest."""

    @property
    def middle(self) -> float:
        """Mean of ``low`` and ``high``."""
        return (self.low + self.high) / 2


def read_book(path: str | os.PathLike[str] | None = None) -> CostBook:
    """Return the book at ``path``, by default softib's. Raises :class:`InputError`, one line with location and
    error."""
    if path is None:
        where = "prices.yaml"
        content = resources.files("softib.plan").joinpath("prices.yaml").read_text(encoding="utf-8")
    else:
        where = os.fspath(path)
        content = read_text(where, "file of prices")
    data = load_plain_yaml(content, where, "file of prices")
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: prices must be a mapping with currency, date, adapters, switch_ports and cables")
    return checked(CostBook, data, where, "a cost book")


def price_of(book: CostBook, fabric: Fabric, network: str, *, whole: bool = False) -> Price:
    """Return the price of ``fabric`` in ``network``: adapters by linked ports of hosts, switches by their linked
    ports, cables by their length. Aggregation nodes are inside their switches. A cable without a known length
    counts as the shortest. ``whole``: whole switches are bought if the book has their price. softib's book has it only
    for InfiniBand, so networks are compared without ``whole``."""
    f = fabric
    used = (f.port_peer >= 0) & ~inside_switches(f)
    switch = f.switch_of_node[f.port_node] >= 0
    low = high = 0.0
    missing: list[str] = []

    def add(count: int, price: Range | None, item: str) -> None:
        nonlocal low, high
        if price is None and count:
            missing.append(f"{network} {item}")
        elif price is not None:
            low, high = low + count * price.low, high + count * price.high

    add(int((used & ~switch).sum()), book.adapters.get(network), "adapter")
    if whole and network in book.switches:
        add(f.sizes.switches, book.switches[network], "switch")
    else:
        add(int((used & switch).sum()), book.switch_ports.get(network), "switch port")
    cables = sorted(book.cables.get(network, ()), key=lambda c: c.up_to_m)
    cable = np.unique(f.port_cable[used & (f.port_cable >= 0)])
    lengths, counts = np.unique(np.nan_to_num(f.cable_length_m[cable]), return_counts=True)
    for metres, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        add(count, next((c for c in cables if metres <= c.up_to_m), None), f"cable of {metres:g} m")
    short = int(np.isnan(f.cable_length_m[cable]).sum())
    return Price(0.0, 0.0, tuple(missing), short) if missing else Price(low, high, (), short)
