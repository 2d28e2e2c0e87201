"""Comparison of a workload on one fabric over several networks: generations of InfiniBand, RoCE,
TCP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from softib.analysis.simulation.networks import HalfPrice, JobOver, Network, NetworkComparison, PriceRange
from softib.api.arguments import Suggests
from softib.api.fabric import Fabric
from softib.api.simulation.result import Simulation
from softib.api.simulation.simulate import Record, simulate
from softib.api.table import Table
from softib.errors import InputError, SoftibError
from softib.result import columns, html_table
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.api.graph import Drawing
    from softib.plan.price_book import CostBook, Price

__all__ = ["NETWORKS_COMPARED", "Comparison", "compare"]

NETWORKS_COMPARED = ("EDR", "HDR", "NDR", "XDR", "roce", "tcp")
"""Networks that :func:`compare` runs by default."""
ETHERNET = ("roce", "tcp")
NO_PRICE = "No price of {networks}: the cost book has none for {items}. Use --prices FILE for your own."
PRICED = (
    "Prices in {currency} of {date}, the middle of a range ({low:,.0f} to {high:,.0f} as it is): "
    "adapters, switch ports in use, cables."
)
SHORT = "{n:,} cables have no known length: they count as the shortest."
NO_HALF = "Nothing here costs half of the fabric as it is, or less."
SLOWER = (
    "{slower} slower than {older} here: these messages wait for devices, not links. From port to "
    "port a switch takes {switches} ns ({names}), a pair of adapters {adapters}: "
    "links of HDR and later have forward error correction; sources for NDR switches range from 150 to 400 ns."
)
NODES = (
    "GPU nodes are {name} in every network: links that are faster than its adapters change nothing. "
    "Use machine=NAME for other nodes."
)
SHOWN = {"roce": "RoCE", "tcp": "TCP"}
BUSY = (
    "CPU share above one core: with {name} a host's messages take {cores:.1f} cores at these costs, and "
    "the run does not wait for them; a program whose threads are fewer posts more slowly."
)
HALF = "At half the price or less: {kept}."


class Comparison(Suggests):
    """A workload over several networks. ``base``: the run on the unchanged fabric. ``runs``: the successful runs by
    network. ``errors``: the reasons why the others failed."""

    def __init__(self, base: Simulation, first: str, wanted: list[str], book: CostBook | None = None):
        self.base, self._first, self._order, self._book = base, first, [first, *wanted], book
        self.runs: dict[str, Simulation] = {first: base}
        self.errors: dict[str, str] = {}

    @property
    def _figures(self) -> NetworkComparison:
        base, networks = self.base, self._networks
        return NetworkComparison(
            source=base.fabric.source,
            fabric=base.fabric.name,
            workload=base.workload,
            layer=base.layer,
            engine=base.engine,
            seed=base._plain.settings.seed,
            as_it_is=self._first,
            networks=networks,
            half_price=_half_price(networks),
            notes=self.notes,
        )

    @property
    def _networks(self) -> list[Network]:
        return [self._row(name) for name in self._order]

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib compare --json``."""
        return self._figures.to_json()

    def add(self, name: str) -> None:
        """Add the run over network ``name``; if it is impossible, ``errors`` receives the reason."""
        key = "network" if name.partition(",")[0] in ETHERNET else "generation"
        try:
            if key == "network" and self.base.layer != "packet":
                raise InputError(f"only the packet layer supports {name}; use layer packet")
            self.runs[name] = self.base.variant({key: name})
        except SoftibError as error:
            self.errors[name] = str(error)

    @property
    def good(self) -> bool:
        """Return whether every message of every run completed."""
        return all(run.good for run in self.runs.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions on which the figures depend, and missing figures."""
        from softib.analysis.simulation.slowdown import ASSUMED
        from softib.sim.packet.profiles import PROFILES

        result = self.base._plain.result
        profile = PROFILES["EDR"] if result is None else result.hosts.profile
        return (
            *self.base.notes,
            *self._nodes(),
            *self._slower(),
            *self._busy(),
            ASSUMED.format(post=profile.post_ns),
            *self._price_notes(),
        )

    def _nodes(self) -> tuple[str, ...]:
        """Return the name of the GPU nodes, which are the same in all networks."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.nccl.job import machine_of_job
        from softib.workloads.nccl_jobs import Gpus

        result = self.base._plain.result
        if result is None:
            return ()
        jobs = [job for job in result.workload.jobs if isinstance(job, Gpus)]
        placed = [machine_of_job(j, result.hosts.name, rows_of(j, result.hosts), result.hosts.gbps) for j in jobs]
        return tuple(dict.fromkeys(NODES.format(name=p.machine.name) for p in placed))

    def _slower(self) -> tuple[str, ...]:
        """Explain why a newer generation takes longer than an older one, if that is the case."""
        from softib.iba.rates import SPEED_BY_NAME
        from softib.sim.packet.profiles import PROFILES

        took = {n: r.simulated_us for n, r in self.runs.items() if n in SPEED_BY_NAME and r.good}
        by_speed = sorted(took, key=lambda n: SPEED_BY_NAME[n].code)
        older = min(by_speed, key=lambda n: took[n], default="")
        slower = [n for n in by_speed if SPEED_BY_NAME[n].code > SPEED_BY_NAME[older].code and took[n] > took[older]]
        if not slower:
            return ()
        named = [PROFILES[n] for n in (older, *slower)]
        each = lambda values: ", ".join(str(v) for v in values)
        names = each(p.name for p in named)
        return (
            SLOWER.format(
                slower=", ".join(slower),
                older=older,
                names=names,
                switches=each(p.switch_ns for p in named),
                adapters=each(p.adapter_ns for p in named),
            ),
        )

    def _busy(self) -> tuple[str, ...]:
        """Warn if a host's messages need more than one core and the run does not model the resulting waits."""
        from softib.iba.rates import SPEED_BY_NAME

        most = {r.network: r.cpu_share_most or 0.0 for r in self._networks if r.network in SPEED_BY_NAME}
        name = max(most, key=lambda n: most[n], default="")
        return (BUSY.format(name=name, cores=most[name]),) if name and most[name] > 1 else ()

    def _price_notes(self) -> tuple[str, ...]:
        """Return notes on prices."""
        notes = []
        prices = {name: self._price(name) for name in self._order}
        if lacking := {name: p.missing for name, p in prices.items() if p.missing}:
            items = list(dict.fromkeys(item for missing in lacking.values() for item in missing))
            shown = ", ".join(items[:4]) + (f" and {len(items) - 4} more" if len(items) > 4 else "")
            notes.append(
                NO_PRICE.format(networks=", ".join(SHOWN.get(n.partition(",")[0], n) for n in lacking), items=shown)
            )
        first = prices[self._first]
        if not first.missing and self._book is not None:
            notes.insert(
                0, PRICED.format(currency=self._book.currency, date=self._book.date, low=first.low, high=first.high)
            )
            if first.short:
                notes.append(SHORT.format(n=first.short))
            half = _half_price(self._networks) or []
            kept = ", ".join(f"{h.network} keeps {h.performance:.0%} at {h.price:.0%} of the price" for h in half)
            notes.append(HALF.format(kept=kept) if kept else NO_HALF)
        return tuple(notes)

    def _price(self, name: str) -> Price:
        from softib.api.fabric import result_of
        from softib.plan.price_book import price_of, read_book

        if self._book is None:
            self._book = read_book()
        fabric = result_of(self.base.fabric).fabric
        key = name
        if name.partition(",")[0] in ETHERNET:
            run = self.runs.get(name)
            d = None if run is None else run._details
            key = "ethernet" if d is None else f"ethernet-{float(d.gbps[d.plane.ends].max(initial=0.0)):g}"
        return price_of(self._book, fabric, key)

    @property
    def half_price(self) -> list[dict[str, Any]] | None:
        """Networks at half of the fabric's price or less, at middle prices, with ``price`` and ``performance``
        (inverse of the completion time) as shares of those of the unchanged fabric. None if the cost book has no
        prices for the fabric."""
        half = _half_price(self._networks)
        return None if half is None else [one.to_json() for one in half]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per network: ``completion_us`` (None: not all messages completed) and its
        ``ratio`` to the fabric as it is, ``p50_us`` and ``p99_us`` of messages, ``cpu_share``,
        ``end_agrees``, ``why``; and ``jobs`` with the time and p99 of each."""
        return [row.to_json() for row in self._networks]

    def table(self) -> Table:
        """Return :meth:`rows` without jobs."""
        return Table(columns(self._networks, Network))

    def print(self) -> None:
        """Print the text of ``softib compare``."""
        from softib.render.comparison import print_comparison
        from softib.render.terminal import console

        print_comparison(self._figures, console())

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a self-contained page with a table and bars; with ``path``, also write it there.
        Raises :class:`InputError`."""
        from softib.render.comparison import page

        text = page(self._figures)
        if path is not None:
            write_text(path, text)
        return text

    def plot(self) -> Drawing:
        """Plot the time of the workload on each network, as bars."""
        from softib.api.graph import Drawing
        from softib.render.comparison import completion_bars
        from softib.render.html import styled

        return Drawing(styled(completion_bars(self._networks)))

    def _row(self, name: str) -> Network:
        from softib.analysis.simulation.slowdown import processor_share

        run, price, first = self.runs.get(name), self._price(name), self._price(self._first)
        row = Network(name, why=self.errors.get(name, ""))
        if not price.missing:
            assert self._book is not None
            row.price = PriceRange(self._book.currency, price.low, price.high)
        if run is None:
            return row
        details, tails, base = run._details, run.percentiles_us, self.base.simulated_us
        share = processor_share(details)
        comparable = bool(base) and run.good and self.base.good
        priced = row.price is not None and not first.missing and price.middle
        jobs = run.to_json()["jobs"]
        return replace(
            row,
            gbps=float(details.gbps[details.plane.ends].max(initial=0.0)),
            completion_us=run.simulated_us if run.good else None,
            ratio=run.simulated_us / base if comparable else None,
            p50_us=tails.get("p50"),
            p99_us=tails.get("p99"),
            cpu_share=share.get("cpu_share"),
            cpu_share_most=share.get("cpu_share_most"),
            good=run.good,
            end_agrees=run.agreement.end,
            why="; ".join(run.why_not),
            wall_s=run.wall_s,
            per_price=base / run.simulated_us * first.middle / price.middle
            if comparable and priced and run.simulated_us
            else None,
            jobs=[JobOver(j["job"], _span(j), j["latency_us"].get("p99")) for j in jobs],
        )

    def __repr__(self) -> str:
        return f"<Comparison of {self.base.workload!r} on {self.base.fabric.name!r}: {', '.join(self._order)}>"

    def _repr_html_(self) -> str:
        from softib.render.comparison import HEAD, cells

        return html_table(HEAD, [cells(row) for row in self._networks])


def _half_price(networks: Sequence[Network]) -> list[HalfPrice] | None:
    """Return the networks at half the first one's price or less; None if the cost book has no price for it."""
    base, *others = networks
    if base.price is None:
        return None
    half = base.price.middle / 2
    return [
        HalfPrice(row.network, row.price.middle / base.price.middle, 1 / row.ratio)
        for row in others
        if row.price is not None and row.ratio and row.price.middle <= half
    ]


def _span(job: dict[str, Any]) -> float | None:
    return None if job["ended_us"] is None else job["ended_us"] - job["began_us"]


def compare(
    source: Fabric | str | os.PathLike[str],
    workload: Any,
    *,
    networks: Sequence[str] = NETWORKS_COMPARED,
    layer: str = "packet",
    engine: str | None = None,
    seed: int = 0,
    record: Record | None = None,
    prices: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Run ``workload`` on the unchanged fabric, and with each of ``networks``. A network is a generation of InfiniBand
    (the same graph, but link speeds, adapters and switches of that generation), or ``roce`` or ``tcp`` over the same
    cables at the data rate of the links, with options as in ``"roce,gbps=100"``. ``prices``: a cost book (YAML) instead
    of softib's. ``seed``: as in :func:`simulate`.

    Raises :class:`UnknownName` and :class:`InputError`, one line each, like :func:`simulate`, also
    for an unknown network. The error of a single network (for example RoCE in a layer other than
    ``packet``) is in its row.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> softib.compare(tree, "shift:1MB", networks=["HDR", "XDR"], layer="fluid").table()["network"].to_list()
    ['NDR', 'HDR', 'XDR']
    """
    from softib.api.fabric import as_fabric, result_of
    from softib.fabric.generation import main_generation
    from softib.plan.price_book import read_book
    from softib.workloads.workload import read

    if isinstance(networks, str) or not networks:
        raise InputError("networks are a list such as ['HDR', 'NDR', 'roce']")
    book = read_book(prices)
    work = read(workload)
    if work.fabrics:
        raise InputError(
            f"{work.name} uses several fabrics, but a comparison needs jobs on one fabric; use softib simulate"
        )
    names = [name if _ethernet(name) else _generation(name) for name in networks]
    fabric = as_fabric(source)
    first = main_generation(result_of(fabric).fabric)
    wanted = [name for name in dict.fromkeys(names) if name != first]
    base = simulate(fabric, work, layer=layer, engine=engine, seed=seed, record=record)
    if base._run is None:
        raise InputError("workloads with barriers have no messages to compare; leave out barrier")
    comparison = Comparison(base, first, wanted, book)
    for name in wanted:
        comparison.add(name)
    return comparison


def _ethernet(name: str) -> bool:
    """Return whether ``name`` is a network over Ethernet. Raises :class:`InputError` for wrong options."""
    from softib.sim.packet.options import network_of

    if name.partition(",")[0] not in ETHERNET:
        return False
    network_of(name)
    return True


def _generation(name: str) -> str:
    """Return the name of a generation in capitals (``NDR`` for ``ndr``). Raises :class:`UnknownName` with the names of
    all networks."""
    from softib.errors import UnknownName
    from softib.iba.rates import SPEED_BY_NAME

    if name.upper() not in SPEED_BY_NAME:
        raise UnknownName("network", name, (*SPEED_BY_NAME, *ETHERNET))
    return name.upper()
