"""The cables of a fabric on a floor plan: lengths, media, the point-to-point list, and cost."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.planning.bill import BillOfMaterials, bill_of_materials
from softib.api.planning.design import DeviceCount
from softib.api.table import Table
from softib.errors import InputError, SoftibError
from softib.plural import counted
from softib.result import Result
from softib.whole_files import write_file, write_text

if TYPE_CHECKING:
    from softib.plan.bill import Bill
    from softib.plan.cables import Cables
    from softib.plan.floor import Floor
    from softib.plan.price_book import CostBook

__all__ = ["CableList", "CablePlan", "QuoteCheck", "plan_cables"]

FORMS = {".csv": "p2p", ".ufm": "ufm", ".labels": "labels", ".svg": "elevation", ".xlsx": "bill"}
UFM_COLUMNS = ("StartDevice", "StartPort", "EndDevice", "EndPort", "LinkType")


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
    """Power of the devices in a rack, as the floor plan states it."""

    rack: str
    devices: int
    kw: float


@dataclass(frozen=True)
class SwitchPlace(Result):
    """The racks of switches at one place of the floor."""

    switches: str
    """start, middle or end of the racks in use."""
    metres: float | None = None
    """Of all cables."""
    optical_links: int | None = None
    low: float | None = None
    high: float | None = None
    without_price: int | None = None
    """Items that the sums leave out."""
    why_not: str = ""
    """Why the switches do not fit there."""


@dataclass(frozen=True)
class CableList(Result):
    """The cables of a fabric on a floor plan."""

    document = "plan-cables"

    source: str
    fabric: str
    generation: str
    links: int
    racks: int
    """In use."""
    rack_power: list[RackPower]
    rack_kw: float | None
    """Limit of a rack in the floor plan."""
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
class QuoteCheck(Result):
    """A vendor's quote compared with the needs of a fabric."""

    document = "plan-quote"

    source: str
    quote: str
    differences: list[QuoteDifference]
    notes: list[str]
    """Rows that were not understood."""

    def print(self) -> None:
        """As ``softib plan check-quote`` prints it."""
        from softib.render.planning import print_quote
        from softib.render.terminal import console

        print_quote(self, console())


class CablePlan(Suggests):
    """Every cable of a fabric on a floor plan, and its bill of materials (``bill``).

    ``locations``: cost with the switches at other positions on the floor.
    """

    def __init__(self, cables: Cables, bill: Bill, source: str, locations: list[SwitchPlace]):
        self._cables, self.bill, self._source, self.locations = cables, bill, source, locations

    @property
    def racks(self) -> int:
        """Racks in use."""
        return len({e.rack for e in self._cables.layout.elevations})

    @property
    def rack_power(self) -> list[RackPower]:
        """Each rack in use, with the power of its devices."""
        layout = self._cables.layout
        devices = Counter(e.rack for e in layout.elevations)
        return [
            RackPower(layout.floor.rack_name(r), n, round(float(layout.kw[r]), 3)) for r, n in sorted(devices.items())
        ]

    def table(self) -> Table:
        """Return one row a link: both ends with rack and unit, ``path_m`` along the trays,
        ``length_m`` ordered, ``medium``, ``label_a`` and ``label_z``."""
        c, f = self._cables, self._cables.fabric
        floor, layout = c.layout.floor, c.layout
        from softib.plan.plugs import media_of

        media = media_of(c.links.generation)
        columns: dict[str, list[Any]] = {
            key: [] for key in ("node_a", "port_a", "rack_a", "u_a", "node_z", "port_z", "rack_z", "u_z")
        }
        for ends, portnums in zip(c.links.node.tolist(), c.links.portnum.tolist(), strict=True):
            for end, node, portnum in zip("az", ends, portnums, strict=True):
                columns[f"node_{end}"].append(f.node_name(node))
                columns[f"port_{end}"].append(portnum)
                columns[f"rack_{end}"].append(floor.rack_name(int(layout.rack[node])))
                columns[f"u_{end}"].append(int(layout.u[node]))
        return Table(
            {
                **columns,
                "path_m": c.path_m.round(2),
                "length_m": c.length_m,
                "medium": [media[k].medium for k in c.kind.tolist()],
                "label_a": [c.label(i, 0) for i in range(len(c))],
                "label_z": [c.label(i, 1) for i in range(len(c))],
            }
        )

    def save(self, path: str | os.PathLike[str], form: str | None = None) -> None:
        """Write ``path`` as ``form`` or by its suffix: ``p2p`` (.csv, the point-to-point list that
        ``check --plan`` reads), ``ufm`` (.ufm, UFM's topology CSV), ``labels`` (.labels),
        ``elevation`` (.svg), ``bill`` (.xlsx, or CSV with another suffix). Raises
        :class:`InputError`."""
        from softib.fabric.formats.cabling.plan import write_plan
        from softib.plan.bill import workbook
        from softib.plan.elevation import elevation_svg

        suffix = os.path.splitext(os.fspath(path))[1].lower()
        form = form or FORMS.get(suffix)
        if form == "p2p":
            write_plan(self._cables.plan(), os.fspath(path))
        elif form == "ufm":
            write_text(path, self._ufm())
        elif form == "labels":
            write_text(path, self._labels())
        elif form == "elevation":
            write_text(path, elevation_svg(self._cables.layout))
        elif form == "bill" and suffix == ".xlsx":
            content = workbook(self.bill)
            write_file(path, lambda temporary: temporary.write_bytes(content))
        elif form == "bill":
            write_text(path, self.bill.csv())
        else:
            raise InputError(
                f"{os.fspath(path)}: no form for {suffix or 'a file without a suffix'}; "
                f"use {', '.join(f'{s} ({f})' for s, f in FORMS.items())}"
            )

    def check_quote(self, path: str | os.PathLike[str]) -> QuoteCheck:
        """Compare a vendor's quote (CSV or XLSX): missing and surplus items, and rows that were not
        understood."""
        from softib.plan.quote import check_quote, read_quote

        differences, notes = check_quote(self.bill, read_quote(path))
        rows = [QuoteDifference(d.text, d.needed, d.offered) for d in differences]
        return QuoteCheck(self._source, os.fspath(path), rows, notes)

    def to_json(self) -> dict[str, Any]:
        """As ``softib plan cables --json`` prints it."""
        return self._list().to_json()

    def _list(self) -> CableList:
        from softib.plan.plugs import watts_of

        c = self._cables
        watts, unknown = watts_of(c.links, c.kind)
        return CableList(
            source=self._source,
            fabric=c.fabric.name,
            generation=c.links.generation,
            links=len(c),
            racks=self.racks,
            rack_power=self.rack_power,
            rack_kw=c.layout.floor.kw,
            lengths=[CableKind(*kind) for kind in c.by_kind()],
            bundles=[RackPair(*pair) for pair in c.bundles()],
            crowded_trays=[Tray(*tray) for tray in c.crowded_trays()],
            watts=watts,
            watts_unknown=[DeviceCount(name, n) for name, n in sorted(unknown.items())],
            bill=bill_of_materials(self.bill),
            locations=self.locations,
        )

    def print(self) -> None:
        """As ``softib plan cables`` prints it."""
        from softib.render.planning import print_cables
        from softib.render.terminal import console

        print_cables(self._list(), console())

    def _ufm(self) -> str:
        c, f = self._cables, self._cables.fabric
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(UFM_COLUMNS)
        to_host = np.any(c.links.host, axis=1)
        ends = zip(c.links.node.tolist(), c.links.portnum.tolist(), to_host.tolist(), strict=True)
        for (a, z), (port_a, port_z), host in ends:
            kind = "HCA-SW" if host else "SW-SW"
            writer.writerow((f.node_name(a), f"Port {port_a}", f.node_name(z), f"Port {port_z}", kind))
        return out.getvalue()

    def _labels(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("Cable", "End A", "End Z"))
        for i in range(len(self._cables)):
            writer.writerow((i + 1, self._cables.label(i, 0), self._cables.label(i, 1)))
        return out.getvalue()

    def __repr__(self) -> str:
        return f"<CablePlan of {self._source!r}: {counted(len(self._cables), 'link')}, {counted(self.racks, 'rack')}>"


def generation_of(fabric: Fabric) -> str:
    """Return the fastest speed of a fabric's links, as the name of its generation. Raises
    :class:`InputError` if the source records none."""
    from softib.fabric.end_ports import port_gbps
    from softib.iba.rates import SPEED_BY_NAME

    stated = result_of(fabric).fabric.source.generator.get("params", {}).get("generation")
    if stated:
        return str(stated)
    gbps = float(port_gbps(result_of(fabric).fabric).max(initial=0.0))
    named = [name for name, speed in SPEED_BY_NAME.items() if abs(speed.lane_gbps * 4 - gbps) < 1]
    if not named:
        raise InputError(f"{fabric.source}: no link has a known speed; add for example --generation NDR")
    return named[-1]


def plan_cables(
    source: Fabric | str | os.PathLike[str],
    floor: str | os.PathLike[str] | Mapping[str, Any],
    *,
    generation: str | None = None,
    prices: str | os.PathLike[str] | None = None,
) -> CablePlan:
    """Place ``source`` on ``floor`` (a YAML file or a mapping: see docs/plan.md) and cut its cables
    to length.

    ``generation`` of the cables: by default that of the fastest link. Raises :class:`InputError`
    for a floor that is too small, and for a distance that no cable reaches.

    >>> import softib
    >>> pod = softib.generate("rail-optimized", nodes=31)
    >>> plan = softib.plan_cables(pod, {"racks": 12, "kw": 44})
    >>> plan
    <CablePlan of "softib.generate('rail-optimized', nodes=31)": 508 links, 9 racks>
    """
    from softib.plan.floor import read_floor
    from softib.plan.price_book import read_book

    fabric = as_fabric(source)
    plan, book = read_floor(floor), read_book(prices)
    speed = generation or generation_of(fabric)
    cables, bill = _on_floor(fabric, plan, speed, book)
    locations: list[SwitchPlace] = []
    for where in ("start", "middle", "end"):
        try:
            other, its_bill = _on_floor(fabric, plan.model_copy(update={"switches": where}), speed, book)
        except SoftibError as error:
            locations.append(SwitchPlace(where, why_not=str(error)))
            continue
        metres = float(other.length_m.sum())
        optical = sum(n for medium, _, n in other.by_kind() if medium in ("AOC", "MMF", "SMF"))
        locations.append(SwitchPlace(where, metres, optical, its_bill.low, its_bill.high, len(its_bill.open)))
    return CablePlan(cables, bill, fabric.source, locations)


def _on_floor(fabric: Fabric, floor: Floor, generation: str, book: CostBook) -> tuple[Cables, Bill]:
    from softib.plan.bill import bill_of
    from softib.plan.cables import cables_of
    from softib.plan.floor import lay_out

    arrays = result_of(fabric).fabric
    cables = cables_of(arrays, lay_out(arrays, floor), generation)
    hosts = int(cables.links.host.sum())
    return cables, bill_of(generation, arrays.sizes.switches, hosts, cables.orders, book)
