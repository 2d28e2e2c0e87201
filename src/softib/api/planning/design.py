"""Designs for a demand, side by side."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric
from softib.api.progress import Steps, unwatched
from softib.api.table import Table
from softib.errors import InputError, UnknownName
from softib.plan.design_records import DesignComparison, DesignRow, DeviceCount, FailureRow, GrowthRow, PriceRange
from softib.plan.designs import Demand
from softib.plural import counted
from softib.result import columns
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.analysis.planning import Design
    from softib.plan.price_book import CostBook

__all__ = ["Demand", "DesignComparison", "DesignRow", "Designs", "DeviceCount", "PriceRange", "plan_design"]


class Designs(Suggests):
    """The designs that meet a demand: trees with the requested oversubscription first, then a dragonfly+, then others.

    ``refused``: one line for each kind of design that cannot meet the demand. ``storage``: designs of the
    separate storage fabric, empty if none was requested. ``management_switches``: number of 48-port
    Ethernet switches for the management ports of all hosts and switches of the first designs.
    """

    def __init__(
        self,
        demand: Demand,
        designs: list[Design],
        refused: list[str],
        book: CostBook,
        storage: list[Design],
        storage_hosts: int,
    ):
        self._demand, self._designs, self._book = demand, designs, book
        self._storage, self._storage_hosts = storage, storage_hosts
        self.refused = tuple(refused)

    @property
    def labels(self) -> list[str]:
        """Names of the designs, for :meth:`fabric`."""
        return [d.candidate.label for d in self._designs]

    @property
    def management_switches(self) -> int:
        """Number of Ethernet switches for management ports."""
        from softib.plan.floor import MANAGEMENT_PORTS

        first = [designs[0] for designs in (self._designs, self._storage) if designs]
        devices = self._demand.hosts + self._storage_hosts + sum(sum(d.switches.values()) for d in first)
        return -(-devices // MANAGEMENT_PORTS)

    def fabric(self, label: str | None = None) -> Fabric:
        """Return the fabric of a design (default: the first), as :func:`softib.generate` makes it.
        Raises :class:`UnknownName`."""
        return _fabric(self._design(label))

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the fabric.yaml of each design, also of the storage fabric, into ``folder`` (created if
        missing); return their paths. Raises :class:`InputError`."""
        from softib.fabric.topologies.registry import spec_text

        directory = Path(folder)
        try:
            directory.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{directory}: {error.strerror}; give a folder whose parent exists") from None
        paths = []
        for prefix, designs in (("", self._designs), ("storage ", self._storage)):
            for design in designs:
                label = f"{prefix}{design.candidate.label}"
                stem = "-".join("".join(c if c.isalnum() else " " for c in label).split())
                path = directory / f"{stem}.yaml"
                write_text(path, spec_text(design.fabric, dict(design.candidate.parameters)))
                paths.append(str(path))
        return paths

    def rows(self) -> list[DesignRow]:
        """Return one row per design."""
        return [_row(d) for d in self._designs]

    def table(self) -> Table:
        """Return :meth:`rows` without nested values."""
        return Table(columns(self.rows(), DesignRow))

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib plan design --json``."""
        return self._comparison().to_json()

    def _comparison(self) -> DesignComparison:
        from softib.plan.plugs import management_power

        d, each = self._demand, self._book.management_switch
        power = management_power(self.management_switches)
        return DesignComparison(
            name=d.name,
            hosts=d.hosts,
            adapters=d.adapters,
            gpus=d.gpus * d.hosts or None,
            generation=d.generation,
            radix=d.switch_ports,
            oversubscription=d.oversubscription,
            designs=self.rows(),
            storage=[_row(s) for s in self._storage],
            management_switches=self.management_switches,
            management_price=None
            if each is None
            else PriceRange(self.management_switches * each.low, self.management_switches * each.high),
            management_watts=power.watts,
            management_watts_unknown=[DeviceCount(name, n) for name, n in sorted(power.unknown.items())],
            refused=list(self.refused),
            currency=self._book.currency,
            prices_of=self._book.date,
        )

    def print(self) -> None:
        """Print the text of ``softib plan design``."""
        from softib.render.planning import print_designs
        from softib.render.terminal import console

        print_designs(self._comparison(), console())

    def _design(self, label: str | None) -> Design:
        if label is None:
            return self._designs[0]
        if label not in self.labels:
            raise UnknownName("design", label, self.labels)
        return self._designs[self.labels.index(label)]

    def __repr__(self) -> str:
        return f"<Designs for {counted(self._demand.hosts, 'host')}: {', '.join(self.labels)}>"


def _fabric(design: Design) -> Fabric:
    from softib.api.fabric import generate

    return generate(design.candidate.kind, name=design.fabric.name, **design.candidate.parameters)


def _row(design: Design) -> DesignRow:
    shape, price, power, growth = design.candidate, design.price, design.power, design.growth
    return DesignRow(
        design=shape.label,
        kind=shape.kind,
        parameters=dict(shape.parameters),
        room=shape.room,
        host_ports=design.host_ports,
        switches=sum(design.switches.values()),
        switches_by_tier=dict(design.switches),
        cables=sum(design.cables.values()),
        cables_by_tier=dict(design.cables),
        switch_hops=design.hops,
        bisection=design.bisection,
        effective_bisection=design.effective,
        watts=power.watts,
        watts_unknown=[DeviceCount(name, n) for name, n in power.unknown],
        price=None if price.missing else PriceRange(price.low, price.high),
        price_missing=list(price.missing),
        failures=[FailureRow(f.part, f.lost, f.effective) for f in design.failures],
        twice_the_hosts=None
        if growth is None
        else GrowthRow(growth.new_switches, growth.idle_switches, growth.kept, growth.moved, growth.new),
        note=shape.remarks,
    )


def plan_design(
    demand: Demand,
    *,
    budget: float | None = None,
    storage_ports: int = 0,
    storage_hosts: int = 0,
    prices: str | os.PathLike[str] | None = None,
    seed: int = 0,
    steps: Steps = unwatched,
) -> Designs:
    """Return designs for ``demand``.

    ``budget``: instead of the demand's number of hosts, use the number that the first design connects for this sum (at
    middle prices). ``storage_ports`` of every host and one port of each of ``storage_hosts`` form a separate storage
    fabric. ``prices``: a cost book. Each design is built and brought up by the subnet manager. Its engine then routes
    around one dead switch of each tier and one dead cable. ``seed`` chooses the
    random pairs of the bisection. ``steps`` is entered with the name of each design. Raises
    :class:`InputError` for a demand that no design meets, or a budget that buys no design.

    >>> import softib
    >>> designs = softib.plan_design(softib.Demand.of_gpus(256))
    >>> designs.rows()[0].design, designs.rows()[0].switches
    ('rail-optimized, 2 tiers', 12)
    """
    from softib.analysis.planning import designs, largest_demand
    from softib.plan.price_book import read_book

    book = read_book(prices)
    if budget is not None:
        demand = largest_demand(demand, book, budget)
    ranked = designs(demand, book, seed=seed, steps=steps)
    storage = []
    if storage_ports or storage_hosts:
        ports = demand.hosts * storage_ports + storage_hosts
        ancillary = dataclasses.replace(
            demand,
            hosts=ports,
            adapters=1,
            gpus=0,
            oversubscription=1.0,
            name=f"{demand.name}-storage",
            prefix="storage-",
        )
        storage = designs(ancillary, book, seed=seed, steps=steps).designs
    return Designs(demand, ranked.designs, ranked.refused, book, storage, storage_hosts)
