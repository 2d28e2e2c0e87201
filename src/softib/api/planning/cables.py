"""The cables of a fabric on a floor plan: lengths, media, the point-to-point list, and cost."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.table import Table
from softib.errors import InputError, SoftibError
from softib.plan.bill_records import (
    CableKind,
    CableList,
    QuoteDifference,
    RackPair,
    RackPower,
    SwitchPlace,
    Tray,
    bill_of_materials,
)
from softib.plan.design_records import DeviceCount
from softib.plural import counted
from softib.result import Result
from softib.whole_files import write_file, write_text

if TYPE_CHECKING:
    from softib.plan.bill import Bill
    from softib.plan.cables import Cabling
    from softib.plan.floor import Floor
    from softib.plan.plugs import KnownPower
    from softib.plan.price_book import CostBook

__all__ = ["CableList", "CablePlan", "PlanPower", "QuoteCheck", "plan_cables"]

FORMS = {".csv": "p2p", ".ufm": "ufm", ".labels": "labels", ".svg": "elevation", ".xlsx": "bill"}
UFM_COLUMNS = ("StartDevice", "StartPort", "EndDevice", "EndPort", "LinkType")


@dataclass(frozen=True)
class QuoteCheck(Result):
    """A vendor's quote compared with the needs of a fabric."""

    document = "plan-quote"

    source: str
    quote: str
    differences: list[QuoteDifference]
    notes: list[str]
    """Rows of the quote that are not counted, or counted with a doubt, and why."""

    def print(self) -> None:
        """Print the text of ``softib plan check-quote``."""
        from softib.render.planning import print_quote
        from softib.render.terminal import console

        print_quote(self.differences, self.notes, console())


class PlanPower(NamedTuple):
    """Power of the devices and plugs of a plan, as their vendors publish it."""

    watts: float
    """Sum in watts over devices and plugs with a published figure."""
    unknown: list[DeviceCount]
    """Devices and plugs without a published figure."""

    @classmethod
    def of(cls, parts: Sequence[KnownPower]) -> PlanPower:
        """Return the sum over ``parts``."""
        unknown = sum((p.unknown for p in parts), Counter[str]())
        return cls(sum(p.watts for p in parts), [DeviceCount(name, n) for name, n in sorted(unknown.items())])


class CablePlan(Suggests):
    """Every cable of the fabrics on a floor plan, and their bill of materials (``bill``).

    ``locations``: what the cables would cost if the switches were in other positions on the floor.
    ``management_switches``: number of Ethernet switches on the floor, 0 if the floor plan has none.
    """

    def __init__(self, cabling: Cabling, bill: Bill, source: str, locations: list[SwitchPlace]):
        self._cabling, self.bill, self._source, self.locations = cabling, bill, source, locations

    @property
    def management_switches(self) -> int:
        """Number of Ethernet switches for management on the floor."""
        return sum(e.kind == "management" for e in self._cabling.layout.elevations)

    @property
    def power(self) -> PlanPower:
        """Power of devices and plugs, management switches included."""
        from softib.plan.plugs import management_power, power_of

        parts = [power_of(c.links, c.kind, c.fabric.sizes.switches) for c in self._cabling.parts]
        return PlanPower.of([*parts, management_power(self.management_switches)])

    @property
    def racks(self) -> int:
        """Number of racks in use."""
        return len({e.rack for e in self._cabling.layout.elevations})

    @property
    def rack_power(self) -> list[RackPower]:
        """Each rack in use, with the power of its devices."""
        layout = self._cabling.layout
        devices = Counter(e.rack for e in layout.elevations)
        return [
            RackPower(layout.floor.rack_name(r), n, round(float(layout.kw[r]), 3)) for r, n in sorted(devices.items())
        ]

    def table(self) -> Table:
        """Return one row per link: both ends with rack and unit, ``path_m`` (distance along the trays), ``length_m``
        (length to order), ``medium``, ``label_a`` and ``label_z``."""
        from softib.plan.plugs import media_of

        ends = [f"{key}_{end}" for end in "az" for key in ("node", "port", "rack", "u")]
        names = (*ends, "path_m", "length_m", "medium", "label_a", "label_z")
        columns: dict[str, list[Any]] = {key: [] for key in names}
        for c in self._cabling.parts:
            f, layout, media = c.fabric, c.layout, media_of(c.links.generation)
            for nodes, portnums in zip(c.links.node.tolist(), c.links.portnum.tolist(), strict=True):
                for end, node, portnum in zip("az", nodes, portnums, strict=True):
                    columns[f"node_{end}"].append(f.node_name(node))
                    columns[f"port_{end}"].append(portnum)
                    columns[f"rack_{end}"].append(layout.floor.rack_name(int(layout.rack[node])))
                    columns[f"u_{end}"].append(int(layout.u[node]))
            columns["path_m"] += c.path_m.round(2).tolist()
            columns["length_m"] += c.length_m.tolist()
            columns["medium"] += [media[k].medium for k in c.kind.tolist()]
            for at, side in enumerate("az"):
                columns[f"label_{side}"] += [c.label(i, at) for i in range(len(c))]
        return Table(columns)

    def save(self, path: str | os.PathLike[str], form: str | None = None) -> None:
        """Write ``path``, as ``form`` or by its suffix: ``p2p`` (.csv, the point-to-point list that
        ``check --plan`` reads), ``ufm`` (.ufm, UFM's topology CSV), ``labels`` (.labels),
        ``elevation`` (.svg), ``bill`` (.xlsx, or CSV with any other suffix). Raises
        :class:`InputError`."""
        from softib.fabric.formats.cabling.plan import write_plan
        from softib.plan.bill import workbook
        from softib.plan.elevation import elevation_svg

        suffix = os.path.splitext(os.fspath(path))[1].lower()
        form = form or FORMS.get(suffix)
        if form == "p2p":
            write_plan(self._cabling.plan(), os.fspath(path))
        elif form == "ufm":
            write_text(path, self._ufm())
        elif form == "labels":
            write_text(path, self._labels())
        elif form == "elevation":
            write_text(path, elevation_svg(self._cabling.layout))
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
        """Compare a vendor's quote (CSV or XLSX): missing and surplus items, and rows that are not
        counted."""
        from softib.plan.quote import check_quote, read_quote

        quote = check_quote(self.bill, read_quote(path))
        rows = [QuoteDifference(d.text, d.needed, d.offered) for d in quote.differences]
        return QuoteCheck(self._source, os.fspath(path), rows, quote.notes)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib plan cables --json``."""
        return self._list().to_json()

    def _list(self) -> CableList:
        from softib.plan.plugs import watts_of

        c = self._cabling
        plugs = PlanPower.of([watts_of(part.links, part.kind) for part in c.parts])
        return CableList(
            source=self._source,
            fabric=c.parts[0].fabric.name,
            generation=c.parts[0].links.generation,
            ancillary=[part.fabric.name for part in c.parts[1:]],
            links=len(c),
            management_switches=self.management_switches,
            racks=self.racks,
            rack_power=self.rack_power,
            rack_kw=c.layout.floor.kw,
            lengths=[CableKind(*kind) for kind in c.by_kind()],
            bundles=[RackPair(*pair) for pair in c.bundles()],
            crowded_trays=[Tray(*tray) for tray in c.crowded_trays()],
            watts=plugs.watts,
            watts_unknown=plugs.unknown,
            bill=bill_of_materials(self.bill),
            locations=self.locations,
        )

    def print(self) -> None:
        """Print the text of ``softib plan cables``."""
        from softib.render.planning import print_cables
        from softib.render.terminal import console

        print_cables(self._list(), console())

    def _ufm(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(UFM_COLUMNS)
        for c in self._cabling.parts:
            to_host = np.any(c.links.host, axis=1)
            ends = zip(c.links.node.tolist(), c.links.portnum.tolist(), to_host.tolist(), strict=True)
            for nodes, (port_a, port_z), host in ends:
                a, z = map(c.fabric.node_name, nodes)
                writer.writerow((a, f"Port {port_a}", z, f"Port {port_z}", "HCA-SW" if host else "SW-SW"))
        return out.getvalue()

    def _labels(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("Cable", "End A", "End Z"))
        labels = ((c.label(i, 0), c.label(i, 1)) for c in self._cabling.parts for i in range(len(c)))
        writer.writerows((number, *ends) for number, ends in enumerate(labels, 1))
        return out.getvalue()

    def __repr__(self) -> str:
        return f"<CablePlan of {self._source!r}: {counted(len(self._cabling), 'link')}, {counted(self.racks, 'rack')}>"


def generation_of(fabric: Fabric) -> str:
    """Return the fastest speed of a fabric's links, as the name of its generation. Raises
    :class:`InputError` if the source records none."""
    from softib.fabric.power_up import active_speed_codes
    from softib.iba.rates import SPEED_BY_CODE

    stated = result_of(fabric).fabric.source.generator.get("params", {}).get("generation")
    if stated:
        return str(stated)
    arrays = result_of(fabric).fabric
    codes = active_speed_codes(arrays.port_info, arrays.port_mlnx_speed)[arrays.linked & (arrays.port_num > 0)]
    speeds = [SPEED_BY_CODE[code] for code in np.unique(codes).tolist() if code in SPEED_BY_CODE]
    if not speeds:
        raise InputError(f"{fabric.source}: no link has a known speed; set it, for example with --generation NDR")
    return max(speeds, key=lambda speed: speed.lane_data_gbps).name


def plan_cables(
    source: Fabric | str | os.PathLike[str],
    floor: str | os.PathLike[str] | Mapping[str, Any],
    *,
    ancillary: Sequence[Fabric | str | os.PathLike[str]] = (),
    shared: int | None = None,
    generation: str | None = None,
    prices: str | os.PathLike[str] | None = None,
) -> CablePlan:
    """Place ``source`` on ``floor`` (a YAML file or a mapping: see docs/plan.md) and cut its cables
    to length.

    ``ancillary``: other fabrics of the same hosts on this floor, for example a storage fabric.
    Their adapters are in the hosts of the same name. With ``shared``, each host of ``source`` has
    that many adapters of each fabric, in order. ``generation``: that of the cables of ``source`` (default: that of its
    fastest link). Raises :class:`InputError` for a floor that is too small, or for a distance that no cable reaches.

    >>> import softib
    >>> pod = softib.generate("rail-optimized", nodes=31)
    >>> plan = softib.plan_cables(pod, {"racks": 12, "kw": 44})
    >>> plan
    <CablePlan of "softib.generate('rail-optimized', nodes=31)": 508 links, 9 racks>
    """
    from softib.plan.floor import read_floor
    from softib.plan.price_book import read_book

    fabrics = [as_fabric(one) for one in (source, *ancillary)]
    plan, book = read_floor(floor), read_book(prices)
    if shared is not None and not ancillary:
        raise InputError(f"shared={shared} needs ancillary fabrics; name those that share the hosts with ancillary")
    speeds = [generation or generation_of(fabrics[0]), *map(generation_of, fabrics[1:])]
    cabling, bill = _on_floor(fabrics, plan, shared, speeds, book)
    locations: list[SwitchPlace] = []
    for where in ("start", "middle", "end"):
        try:
            moved = plan.model_copy(update={"switches": where})
            other, its_bill = _on_floor(fabrics, moved, shared, speeds, book)
        except SoftibError as error:
            locations.append(SwitchPlace(where, why_not=str(error)))
            continue
        metres = float(sum(part.length_m.sum() for part in other.parts))
        optical = sum(n for medium, _, n in other.by_kind() if medium in ("AOC", "MMF", "SMF"))
        locations.append(SwitchPlace(where, metres, optical, its_bill.low, its_bill.high, len(its_bill.open)))
    return CablePlan(cabling, bill, fabrics[0].source, locations)


def _on_floor(
    fabrics: Sequence[Fabric], floor: Floor, shared: int | None, generations: Sequence[str], book: CostBook
) -> tuple[Cabling, Bill]:
    from softib.plan.bill import Part, bill_of
    from softib.plan.cables import Cabling, by_generation, cables_of
    from softib.plan.placement import lay_out
    from softib.plan.plugs import added

    arrays = [result_of(fabric).fabric for fabric in fabrics]
    layouts = lay_out(arrays, floor, shared)
    cabling = Cabling(tuple(map(cables_of, arrays, layouts, generations)))
    needs = [
        Part(
            generation,
            sum(c.fabric.sizes.switches for c in parts),
            sum(int(c.links.host.sum()) for c in parts),
            added(order for c in parts for order in c.orders),
        )
        for generation, parts in by_generation(cabling.parts).items()
    ]
    switches = sum(e.kind == "management" for e in cabling.layout.elevations)
    return cabling, bill_of(needs, book, switches, cabling.patches())
