"""What a fabric costs over years, and a GPU-hour on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric
from softib.api.shown import Suggests
from softib.errors import InputError

if TYPE_CHECKING:
    from softib.api.planning.cables import CablePlan
    from softib.plan.price_book import CostBook

__all__ = ["Cost", "plan_cost"]

HOURS_A_YEAR = 8766.0


class Cost(Suggests):
    """The bill of a fabric with the cost of running it. ``rows``: by number of GPUs, where a
    workload was given."""

    def __init__(self, plan: CablePlan, book: CostBook, gpus: int | None, rows: list[dict[str, Any]]):
        self._plan, self._book, self._gpus, self.rows = plan, book, gpus, rows
        self.bill = plan.bill

    @property
    def watts(self) -> tuple[float, list[dict[str, Any]]]:
        """(watts of devices and plugs whose figure is published, devices without one)."""
        from collections import Counter

        from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF
        from softib.plan.plugs import watts_of

        c = self._plan._cables
        watts, unknown = watts_of(c.links, c.kind)
        unknown = Counter(unknown)
        hosts = int(c.links.host.sum())
        for part, number in (
            (SWITCH_OF[c.links.generation], c.fabric.sizes.switches),
            (ADAPTER_OF[c.links.generation], hosts),
        ):
            if part.power_w is None:
                unknown[part.name] += number
            else:
                watts += part.power_w * number
        return watts, [{"device": name, "count": n} for name, n in sorted(unknown.items())]

    @property
    def energy(self) -> dict[str, float] | None:
        """Cost of power and cooling over the book's years, ``low`` and ``high``; None where the book
        has no tariff."""
        running = self._book.running
        if running.kwh is None or running.pue is None:
            return None
        kwh = self.watts[0] / 1000 * HOURS_A_YEAR * running.years
        return {"low": kwh * running.kwh.low * running.pue.low, "high": kwh * running.kwh.high * running.pue.high}

    @property
    def total(self) -> dict[str, float]:
        """Bill and energy over the book's years."""
        energy = self.energy or {"low": 0.0, "high": 0.0}
        return {"low": self.bill.low + energy["low"], "high": self.bill.high + energy["high"]}

    def per_gpu_hour(self, efficiency: float = 1.0, gpus: int | None = None) -> dict[str, float] | None:
        """Cost of the network for one useful GPU-hour: the total over the hours of all GPUs times
        ``efficiency``; None without a number of GPUs."""
        count = gpus or self._gpus
        if not count or not efficiency:
            return None
        hours = count * HOURS_A_YEAR * self._book.running.years * efficiency
        return {key: value / hours for key, value in self.total.items()}

    def to_json(self) -> dict[str, Any]:
        """As ``softib plan cost --json`` prints it."""
        from softib.api.planning.cables import bill_json
        from softib.render.documents import document

        watts, unknown = self.watts
        last = self.rows[-1] if self.rows else None
        return document(
            "plan-cost",
            source=self._plan._source,
            fabric=self._plan._cables.fabric.name,
            bill=bill_json(self.bill),
            watts=watts,
            watts_unknown=unknown,
            years=self._book.running.years,
            energy=self.energy,
            total=self.total,
            gpus=self._gpus,
            gpu_hour=self.per_gpu_hour(last["efficiency"] if last else 1.0),
            scaling=self.rows,
        )

    def print(self) -> None:
        """As ``softib plan cost`` prints it."""
        from softib.render.planning import print_cost
        from softib.render.terminal import console

        print_cost(self.to_json(), console())


def plan_cost(
    source: Fabric | str | os.PathLike[str],
    floor: str | os.PathLike[str] | Mapping[str, Any],
    *,
    generation: str | None = None,
    gpus: int | None = None,
    workload: Any = None,
    scale: Sequence[int] = (),
    prices: str | os.PathLike[str] | None = None,
) -> Cost:
    """The bill of ``source`` on ``floor`` with energy over the cost book's years; with ``gpus`` the
    cost of the network for a GPU-hour.

    ``workload``: a training step; its efficiency on ``gpus`` GPUs (and on each number of ``scale``)
    makes it the cost of a useful GPU-hour. Raises :class:`InputError`.
    """
    from softib.api.fabric import as_fabric
    from softib.api.planning.cables import plan_cables
    from softib.api.simulation.scaling import scaling
    from softib.plan.price_book import read_book

    if workload is not None and gpus is None:
        raise InputError("a workload gives the efficiency of GPUs; say how many with gpus")
    fabric = as_fabric(source)
    plan = plan_cables(fabric, floor, generation=generation, prices=prices)
    cost = Cost(plan, read_book(prices), gpus, [])
    if workload is not None and gpus is not None:
        counts = sorted({*scale, gpus})
        cost.rows = [
            {
                "gpus": row["gpus"],
                "step_us": row["step_us"],
                "efficiency": row["efficiency"],
                "relative": row["relative"],
                "gpu_hour": cost.per_gpu_hour(row["efficiency"], gpus),
            }
            for row in scaling(fabric, workload, counts)
        ]
    return cost
