"""Documents (results as JSON) about cables, bills and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from softib.plan.design_records import DeviceCount, PriceRange
from softib.result import Result

if TYPE_CHECKING:
    from softib.plan.bill import Bill


@dataclass(frozen=True)
class BillItem(Result):
    """A line of a bill; prices are None if the cost book has none."""

    item: str
    part: str
    """The vendor's order number."""
    count: int
    spares: int | None
    """None if the cost book has no failure rate."""
    price_low: float | None
    price_high: float | None
    total_low: float | None
    total_high: float | None
    source: str
    """Source of the price."""


@dataclass(frozen=True)
class BillOfMaterials(Result):
    """An order and its price."""

    currency: str
    prices_of: str
    low: float
    high: float
    without_price: list[str]
    """Number of items that the sums omit."""
    items: list[BillItem]


def bill_of_materials(bill: Bill) -> BillOfMaterials:
    """Return the document of a bill."""
    without = [item.text for item in bill.open]
    return BillOfMaterials(
        bill.currency, bill.date, bill.low, bill.high, without, [BillItem(*item.row()) for item in bill.items]
    )


@dataclass(frozen=True)
class CableKind(Result):
    """Links of one medium and length."""

    medium: str
    length_m: float
    links: int


@dataclass(frozen=True)
class RackPair(Result):
    """Cables between two racks."""

    rack_a: str
    rack_z: str
    cables: int
    bundles: int


@dataclass(frozen=True)
class Tray(Result):
    """A tray with more cables than its capacity."""

    rack: str
    cables: int


@dataclass(frozen=True)
class RackPower(Result):
    """Power of the devices in a rack, according to the floor plan."""

    rack: str
    devices: int
    kw: float


@dataclass(frozen=True)
class SwitchPlace(Result):
    """The racks of switches at one place of the floor."""

    switches: str
    """Position of the switches: ``start``, ``middle`` or ``end`` of the racks in use."""
    metres: float | None = None
    """Total length of all cables."""
    optical_links: int | None = None
    low: float | None = None
    high: float | None = None
    without_price: int | None = None
    """Number of items that the sums omit."""
    why_not: str = ""
    """Reason why the switches cannot be there; empty if they can."""


@dataclass(frozen=True)
class CableList(Result):
    """The cables of a fabric on a floor plan."""

    document = "plan-cables"

    source: str
    fabric: str
    generation: str
    ancillary: list[str]
    """Names of the other fabrics on the floor."""
    links: int
    """Number of links of all fabrics."""
    management_switches: int
    """Number of Ethernet switches on the floor."""
    racks: int
    """Number of racks in use."""
    rack_power: list[RackPower]
    rack_kw: float | None
    """Largest power of a rack in kW, as the floor plan states it."""
    lengths: list[CableKind]
    bundles: list[RackPair]
    crowded_trays: list[Tray]
    watts: float
    """Watts of the plugs with a published figure."""
    watts_unknown: list[DeviceCount]
    bill: BillOfMaterials
    locations: list[SwitchPlace]


@dataclass(frozen=True)
class QuoteDifference(Result):
    """An item with too few or too many pieces in a quote."""

    item: str
    needed: int
    offered: int


@dataclass(frozen=True)
class ScalingRow(Result):
    """A training step on a number of GPUs."""

    gpus: int
    step_us: float
    efficiency: float
    """Share of the GPUs' achieved rate that remains if communication is included."""
    relative: float
    """Throughput per GPU divided by that of the first row."""
    price: PriceRange | None = None
    """Price of the first design for this number of GPUs: adapters, whole switches and cables."""
    gpu_hour: PriceRange | None = None
    """Price divided by the useful GPU-hours in the book's years; without energy."""


@dataclass(frozen=True)
class NetworkPrice(Result):
    """Price of the fabric's adapters, switch ports and cables in one network."""

    network: str
    price: PriceRange | None
    price_missing: list[str]
    """Items that the cost book does not price."""
    host_ports_for_the_same_money: int | None
    """Number of host ports that the middle price of the fabric buys in a network of the same shape. The cost of hosts
    is not included."""


@dataclass(frozen=True)
class CostSheet(Result):
    """Cost of a fabric over years."""

    document = "plan-cost"

    source: str
    fabric: str
    bill: BillOfMaterials
    watts: float
    watts_unknown: list[DeviceCount]
    years: float
    energy: PriceRange | None
    """Cost of power and cooling of the devices with a published figure; None: the cost book has no tariff."""
    total: PriceRange
    gpus: int | None
    gpu_hour: PriceRange | None
    """The network's cost of a useful GPU-hour."""
    scaling: list[ScalingRow]
    networks: list[NetworkPrice]
    """The network of the first fabric, then Ethernet (RoCE or TCP) of the same rate."""
