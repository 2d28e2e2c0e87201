"""The cost of a fabric over several years, and of a GPU-hour on it."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric
from softib.errors import InputError
from softib.plan.bill_records import CostSheet, NetworkPrice, ScalingRow, bill_of_materials
from softib.plan.design_records import PriceRange
from softib.whole_files import write_file, write_text

if TYPE_CHECKING:
    from softib.api.planning.cables import CablePlan, PlanPower
    from softib.plan.price_book import CostBook

__all__ = ["Cost", "CostSheet", "plan_cost"]

HOURS_A_YEAR = 8766.0
CURVE = ("gpus", "step_us", "efficiency", "relative", "price_low", "price_high", "gpu_hour_low", "gpu_hour_high")
"""Columns of a saved scaling curve."""
LANES = 4
"""Lanes of a standard link (4x)."""


class Cost(Suggests):
    """The bill of a fabric, and the cost of running it. ``rows``: the scaling curve, with a row for each number of
    GPUs, if a workload was given."""

    def __init__(self, plan: CablePlan, book: CostBook, gpus: int | None, rows: list[ScalingRow]):
        self._plan, self._book, self._gpus, self.rows = plan, book, gpus, rows
        self.bill = plan.bill

    @property
    def watts(self) -> PlanPower:
        """Power of devices and plugs."""
        return self._plan.power

    @property
    def energy(self) -> PriceRange | None:
        """Cost of power and cooling over the book's years, ``low`` and ``high``; None if the book
        has no tariff."""
        running = self._book.running
        if running.kwh is None or running.pue is None:
            return None
        kwh = self.watts.watts / 1000 * HOURS_A_YEAR * running.years
        return PriceRange(kwh * running.kwh.low * running.pue.low, kwh * running.kwh.high * running.pue.high)

    @property
    def total(self) -> PriceRange:
        """Sum of the bill and of energy over the book's years."""
        energy = self.energy or PriceRange(0.0, 0.0)
        return PriceRange(self.bill.low + energy.low, self.bill.high + energy.high)

    def per_gpu_hour(self, efficiency: float = 1.0, gpus: int | None = None) -> PriceRange | None:
        """Return the network's cost of one useful GPU-hour: the total, divided by the hours of all
        GPUs times ``efficiency``. None if the number of GPUs is unknown."""
        count = gpus or self._gpus
        if not count or not efficiency:
            return None
        hours = count * HOURS_A_YEAR * self._book.running.years * efficiency
        return PriceRange(self.total.low / hours, self.total.high / hours)

    def row(self, point: dict[str, Any], first: dict[str, Any]) -> ScalingRow:
        """Return a row of the scaling curve from a row of :func:`softib.scaling` and the first row."""
        from softib.analysis.planning import price_of_size
        from softib.plan.designs import Demand

        cables, gpus = self._plan._cabling.parts[0], int(point["gpus"])
        ports, hosts = int(cables.links.host.sum()), sum(e.kind == "host" for e in cables.layout.elevations)
        adapters = max(1, round(ports / hosts))
        demand = Demand(math.ceil(ports * gpus / (self._gpus or gpus) / adapters), adapters, cables.links.generation)
        price = price_of_size(demand, self._book)
        paid = hour = None
        if not price.missing:
            paid = PriceRange(price.low, price.high)
            hours = gpus * HOURS_A_YEAR * self._book.running.years * point["efficiency"]
            hour = PriceRange(price.low / hours, price.high / hours)
        per_gpu = [p["tokens_per_s"] / p["gpus"] for p in (point, first)]
        return ScalingRow(gpus, point["step_us"], point["efficiency"], per_gpu[0] / per_gpu[1], paid, hour)

    @property
    def networks(self) -> list[NetworkPrice]:
        """Return the price of the fabric's network, and of an Ethernet network of the same rate with the same number of
        items."""
        from softib.iba.rates import SPEED_BY_NAME
        from softib.plan.price_book import price_of

        cables = self._plan._cabling.parts[0]
        generation, fabric = cables.links.generation, cables.fabric.copy()
        fabric.cable_length_m[cables.links.row] = cables.length_m
        ethernet = f"ethernet-{SPEED_BY_NAME[generation].lane_data_gbps * LANES:g}"
        local, other = (price_of(self._book, fabric, name) for name in (generation, ethernet))
        ports = int(cables.links.host.sum())
        rows = []
        for name, price in ((generation, local), (f"RoCE or TCP ({ethernet})", other)):
            comparable = not local.missing and not price.missing and price.middle
            rows.append(
                NetworkPrice(
                    name,
                    None if price.missing else PriceRange(price.low, price.high),
                    list(price.missing),
                    int(ports * local.middle / price.middle) if comparable else None,
                )
            )
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib plan cost --json``."""
        return self._sheet().to_json()

    def _sheet(self) -> CostSheet:
        power = self.watts
        last = self.rows[-1] if self.rows else None
        return CostSheet(
            source=self._plan._source,
            fabric=self._plan._cabling.parts[0].fabric.name,
            bill=bill_of_materials(self.bill),
            watts=power.watts,
            watts_unknown=power.unknown,
            years=self._book.running.years,
            energy=self.energy,
            total=self.total,
            gpus=self._gpus,
            gpu_hour=self.per_gpu_hour(last.efficiency if last else 1.0),
            scaling=self.rows,
            networks=self.networks,
        )

    def print(self) -> None:
        """Print the text of ``softib plan cost``."""
        from softib.render.planning import print_cost
        from softib.render.terminal import console

        print_cost(self._sheet(), console())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scaling curve as a plot (.svg) or a table (.csv), or the bill (.xlsx). Raises
        :class:`InputError`."""
        from softib.plan.bill import workbook
        from softib.render.charts import scaling_curve

        suffix = os.path.splitext(os.fspath(path))[1].lower()
        rows = [_flat(row) for row in self.rows]
        if suffix == ".xlsx":
            content = workbook(self.bill)
            write_file(path, lambda temporary: temporary.write_bytes(content))
        elif suffix not in (".svg", ".csv"):
            raise InputError(f"{os.fspath(path)}: use .svg or .csv for the scaling curve, .xlsx for the bill")
        elif len(rows) < 2:
            raise InputError(
                f"{os.fspath(path)}: a scaling curve needs a workload and two numbers of GPUs; use --workload and "
                f"--scale"
            )
        elif suffix == ".svg":
            write_text(path, scaling_curve(rows, self.bill.currency))
        else:
            out = io.StringIO()
            writer = csv.DictWriter(out, CURVE, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: "unknown" if v is None else v for k, v in row.items()} for row in rows)
            write_text(path, out.getvalue())


def _flat(row: ScalingRow) -> dict[str, float | None]:
    """Return the values of :data:`CURVE`."""
    values: list[float | None] = [row.gpus, row.step_us, row.efficiency, row.relative]
    for paid in (row.price, row.gpu_hour):
        values += [None, None] if paid is None else [paid.low, paid.high]
    return dict(zip(CURVE, values, strict=True))


def plan_cost(
    source: Fabric | str | os.PathLike[str],
    floor: str | os.PathLike[str] | Mapping[str, Any],
    *,
    ancillary: Sequence[Fabric | str | os.PathLike[str]] = (),
    shared: int | None = None,
    generation: str | None = None,
    gpus: int | None = None,
    workload: Any = None,
    scale: Sequence[int] = (),
    prices: str | os.PathLike[str] | None = None,
) -> Cost:
    """Return the bill of ``source`` on ``floor``, with energy over the cost book's years; with
    ``gpus``, also return the network's cost of a GPU-hour. ``ancillary`` and ``shared`` as in
    :func:`softib.plan_cables`.

    ``workload``: a training step on all ``gpus``. Its efficiency gives the cost of a useful GPU-hour. Each number of
    ``scale`` is a row of the scaling curve, with the batch in proportion.
    Raises :class:`InputError`.
    """
    from softib.api.fabric import as_fabric
    from softib.api.planning.cables import plan_cables
    from softib.api.simulation.simulate import scaling
    from softib.plan.price_book import read_book

    if workload is not None and gpus is None:
        raise InputError("a workload needs the number of GPUs; set gpus")
    if scale and workload is None:
        raise InputError("scale is for a scaling curve of a workload; add a workload, for example training-step:1")
    fabric = as_fabric(source)
    plan = plan_cables(fabric, floor, ancillary=ancillary, shared=shared, generation=generation, prices=prices)
    cost = Cost(plan, read_book(prices), gpus, [])
    if workload is not None and gpus is not None:
        counts = [gpus, *sorted({*scale} - {gpus})]
        points = sorted(scaling(fabric, workload, counts), key=lambda row: int(row["gpus"]))
        cost.rows = [cost.row(point, points[0]) for point in points]
    return cost
