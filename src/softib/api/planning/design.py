"""Designs for a demand, side by side."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric
from softib.api.progress import Steps, unwatched
from softib.api.shown import Suggests
from softib.api.table import Table
from softib.errors import InputError, UnknownName
from softib.plural import counted
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.analysis.planning import Design
    from softib.plan.designs import Demand
    from softib.plan.price_book import CostBook

__all__ = ["Designs", "plan_design"]

MANAGEMENT_PORTS = 48
"""Ports of a switch for baseboard controllers and management ports (1 Gb/s Ethernet)."""


class Designs(Suggests):
    """The designs that meet a demand: those of its own oversubscription and with the fewest switches
    first.

    ``refused``: one line for each kind of design that cannot; ``storage``: designs of the storage
    fabric beside it, empty where none was asked for; ``management_switches``: 48-port Ethernet
    switches for the management ports of hosts and switches, by the first design.
    """

    def __init__(
        self, demand: Demand, designs: list[Design], refused: list[str], book: CostBook, storage: list[Design]
    ):
        self._demand, self._designs, self._book, self._storage = demand, designs, book, storage
        self.refused = tuple(refused)

    @property
    def labels(self) -> list[str]:
        """Names of the designs, as :meth:`fabric` takes them."""
        return [d.candidate.label for d in self._designs]

    @property
    def management_switches(self) -> int:
        """Ethernet switches for management ports."""
        devices = self._demand.hosts + sum(self._designs[0].switches.values())
        return -(-devices // MANAGEMENT_PORTS)

    def fabric(self, label: str | None = None) -> Fabric:
        """The fabric of a design (default: the first), as :func:`softib.generate` makes it. Raises
        :class:`UnknownName`."""
        from softib.api.fabric import generate

        design = self._design(label)
        return generate(design.candidate.kind, name=self._demand.name, **design.candidate.parameters)

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the fabric.yaml of each design into ``folder`` (made where it is missing); returns
        their paths. Raises :class:`InputError`."""
        directory = Path(folder)
        try:
            directory.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{directory}: {error.strerror}; give a folder whose parent exists") from None
        paths = []
        for label in self.labels:
            stem = "-".join("".join(c if c.isalnum() else " " for c in label).split())
            path = directory / f"{stem}.yaml"
            write_text(path, self.fabric(label).to_yaml())
            paths.append(str(path))
        return paths

    def rows(self) -> list[dict[str, Any]]:
        """One row a design."""
        return [_row(d) for d in self._designs]

    def table(self) -> Table:
        """:meth:`rows` without what is nested."""
        rows = self.rows()
        flat = [key for key, value in rows[0].items() if not isinstance(value, dict | list)]
        return Table({key: [row[key] for row in rows] for key in flat})

    def to_json(self) -> dict[str, Any]:
        """As ``softib plan design --json`` prints it."""
        from softib.render.documents import document

        d = self._demand
        return document(
            "plan-design",
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
            refused=list(self.refused),
            currency=self._book.currency,
            prices_of=self._book.date,
        )

    def print(self) -> None:
        """As ``softib plan design`` prints it."""
        from softib.render.planning import print_designs
        from softib.render.terminal import console

        print_designs(self.to_json(), console())

    def _design(self, label: str | None) -> Design:
        if label is None:
            return self._designs[0]
        if label not in self.labels:
            raise UnknownName("design", label, self.labels)
        return self._designs[self.labels.index(label)]

    def __repr__(self) -> str:
        return f"<Designs for {counted(self._demand.hosts, 'host')}: {', '.join(self.labels)}>"


def _row(design: Design) -> dict[str, Any]:
    shape, price, power = design.candidate, design.price, design.power
    growth = design.growth
    return {
        "design": shape.label,
        "kind": shape.kind,
        "parameters": dict(shape.parameters),
        "room": shape.room,
        "host_ports": design.host_ports,
        "switches": sum(design.switches.values()),
        "switches_by_tier": dict(design.switches),
        "cables": sum(design.cables.values()),
        "cables_by_tier": dict(design.cables),
        "switch_hops": design.hops,
        "bisection": design.bisection,
        "effective_bisection": design.effective,
        "watts": power.watts,
        "watts_unknown": [{"device": name, "count": n} for name, n in power.unknown],
        "price": None if price.missing else {"low": price.low, "high": price.high},
        "price_missing": list(price.missing),
        "failures": [
            {"part": f.part, "lost_host_ports": f.lost, "effective_bisection": f.effective} for f in design.failures
        ],
        "twice_the_hosts": None
        if growth is None
        else {
            "switches": growth.new_switches,
            "idle_switches": growth.idle_switches,
            "cables_kept": growth.kept,
            "cables_moved": growth.moved,
            "cables_new": growth.new,
        },
        "note": shape.note,
    }


def plan_design(
    *,
    hosts: int | None = None,
    gpus: int | None = None,
    gpus_per_host: int = 8,
    adapters: int | None = None,
    generation: str = "NDR",
    oversubscription: float = 1.0,
    radix: int | None = None,
    storage_ports: int = 0,
    storage_hosts: int = 0,
    prices: str | os.PathLike[str] | None = None,
    name: str = "design",
    seed: int = 0,
    steps: Steps = unwatched,
) -> Designs:
    """Designs for ``hosts``, or for ``gpus`` in hosts of ``gpus_per_host``, each with ``adapters``
    ports (default: one, or one a GPU) at ``generation``.

    ``oversubscription``: host ports to uplinks of a leaf; ``radix``: ports of a switch (default: the
    catalogue's). ``storage_ports`` of every host and one port of each of ``storage_hosts`` make a
    storage fabric of its own. ``prices``: a cost book. Each design is built, brought up by the subnet
    manager, and brought up again without one leaf, one spine and one cable. ``steps`` is entered with
    the name of each. Raises :class:`InputError` for a demand that no design meets.

    >>> import softib
    >>> designs = softib.plan_design(gpus=256)
    >>> designs.rows()[0]["design"], designs.rows()[0]["switches"]
    ('rail-optimized, 2 tiers', 12)
    """
    from softib.analysis.planning import designs
    from softib.fabric.topologies.params import default_radix
    from softib.plan.designs import Demand
    from softib.plan.price_book import read_book

    if (hosts is None) == (gpus is None):
        raise InputError("say how much is wanted: hosts or gpus, one of the two")
    default_radix(generation)
    more: dict[str, Any] = {
        "generation": generation,
        "oversubscription": oversubscription,
        "radix": radix,
        "name": name,
    }
    if gpus is not None:
        demand = Demand.of_gpus(gpus, gpus_per_host, adapters, **more)
    else:
        assert hosts is not None
        demand = Demand(hosts, 1 if adapters is None else adapters, **more)
    book = read_book(prices)
    found, refused = designs(demand, book, seed=seed, steps=steps)
    storage = []
    if storage_ports or storage_hosts:
        ports = demand.hosts * storage_ports + storage_hosts
        beside = Demand(ports, 1, **{**more, "oversubscription": 1.0, "name": f"{name}-storage"})
        storage = designs(beside, book, seed=seed, steps=steps)[0]
    return Designs(demand, found, refused, book, storage)
