"""Designs, cables, cost, quotes and advice as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from softib.plural import counted
from softib.render.phrases import time_text
from softib.render.terminal import text

if TYPE_CHECKING:
    from rich.console import Console

    from softib.plan.bill_records import (
        BillOfMaterials,
        CableList,
        CostSheet,
        NetworkPrice,
        QuoteDifference,
        SwitchPlace,
    )
    from softib.plan.design_records import (
        AddedHosts,
        DesignComparison,
        DesignRow,
        DeviceCount,
        PriceRange,
        Recommendation,
    )
    from softib.plan.device_records import DeviceCatalogue, Figure


__all__ = [
    "print_advice",
    "print_cables",
    "print_cost",
    "print_designs",
    "print_devices",
    "print_growth",
    "print_quote",
]

UNKNOWN = "unknown"
SHOWN = 20
"""Maximum number of new and of moved cables that are shown."""


def _table(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose columns are as wide as their texts. The first column is aligned left, numbers right."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    for i, line in enumerate(lines):
        cells = (f"{cell:{'<' if k == 0 else '>'}{widths[k]}}" for k, cell in enumerate(line))
        console.print(text("  ".join(cells).rstrip(), "bold" if i == 0 else ""))


def _range(low: float | None, high: float | None) -> str:
    return UNKNOWN if low is None else f"{low:,.0f} to {high:,.0f}"


def _money(price: PriceRange | None) -> str:
    return UNKNOWN if price is None else _range(price.low, price.high)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def _watts(watts: float, unknown: Sequence[DeviceCount]) -> str:
    power = f"{watts / 1000:,.1f} kW" if watts >= 1000 else f"{watts:,.0f} W"
    if not unknown:
        return power
    missing = ", ".join(f"{u.count:,} {u.device}" for u in unknown)
    if not watts:
        return f"{UNKNOWN}, no published figure of {missing}"
    return f"{power} without {missing} (no published figure)"


def print_designs(d: DesignComparison, console: Console) -> None:
    """Print the designs for a demand, with the figures of each."""
    gpus = f", {d.gpus:,} GPUs" if d.gpus else ""
    console.print(
        text(f"{counted(d.hosts, 'host')} with {counted(d.adapters, 'adapter')} of {d.generation}{gpus}", "bold")
    )
    console.print()
    _design_table(d.designs, d, console)
    for row in d.designs:
        console.print()
        _one_design(row, console)
    if d.storage:
        console.print()
        console.print(text("storage fabric beside it", "bold"))
        _design_table(d.storage, d, console)
        prices = [rows[0].price for rows in (d.designs, d.storage)]
        priced = [price for price in prices if price is not None]
        if len(priced) == len(prices):
            low, high = sum(p.low for p in priced), sum(p.high for p in priced)
            console.print(text(f"the first design of both: {d.currency} {_range(low, high)}, without management"))
        console.print(text("--save writes its fabric.yaml, for --ancillary of plan cables and plan cost"))
    console.print()
    n = d.management_switches
    console.print(text(f"management: {counted(n, 'Ethernet switch')} of 48 ports for controllers and switches"))
    price = "price unknown" if d.management_price is None else f"{d.currency} {_money(d.management_price)}"
    watts = _watts(d.management_watts, d.management_watts_unknown)
    console.print(text(f"  {price}; power: {watts}; plan cables places them if the floor plan has management"))
    if d.hosts == 1:
        console.print(text("one host: traffic between its GPUs needs no network", "yellow"))
    for line in d.refused:
        console.print(text(f"not possible: {line}", "yellow"))


def _design_table(rows: Sequence[DesignRow], d: DesignComparison, console: Console) -> None:
    head = ("design", "switches", "cables", "hops", "bisection", "effective", f"{d.currency} ({d.prices_of})")
    _table(
        console,
        head,
        (
            (
                r.design,
                f"{r.switches:,}",
                f"{r.cables:,}",
                str(r.switch_hops),
                _percent(r.bisection),
                _percent(r.effective_bisection),
                _money(r.price),
            )
            for r in rows
        ),
    )


def _one_design(r: DesignRow, console: Console) -> None:
    tiers = ", ".join(f"{n:,} {tier}" for tier, n in r.switches_by_tier.items())
    cables = ", ".join(f"{n:,} {tier}" for tier, n in r.cables_by_tier.items())
    console.print(text(r.design, "bold"))
    console.print(text(f"  switches: {tiers}; cables: {cables}; room for {counted(r.room, 'host')}"))
    console.print(text(f"  power: {_watts(r.watts, r.watts_unknown)}"))
    for f in r.failures:
        lost = f"{counted(f.lost_host_ports, 'host port')} lost, " if f.lost_host_ports else ""
        console.print(text(f"  without {f.part}: {lost}effective bisection {_percent(f.effective_bisection)}"))
    g = r.twice_the_hosts
    if g is None:
        console.print(text("  twice the hosts: no design of this kind"))
    else:
        console.print(
            text(
                f"  twice the hosts: buy {counted(g.switches, 'switch')} and {counted(g.cables_new, 'cable')}, "
                f"move {g.cables_moved:,} of {counted(g.cables_moved + g.cables_kept, 'cable')}"
            )
        )
    if r.price is None:
        console.print(text(f"  price unknown: {', '.join(r.price_missing)}"))
    if r.note:
        console.print(text(f"  {r.note}"))


def print_cables(c: CableList, console: Console) -> None:
    """Print the cables of a fabric on a floor plan, and their bill."""
    names = " and ".join([c.fabric or c.source, *c.ancillary])
    console.print(text(f"{names}: {counted(c.links, 'link')} in {counted(c.racks, 'rack')}", "bold"))
    if not c.management_switches:
        console.print(text("no management switches: the floor plan has no management"))
    most_kw = max((r.kw for r in c.rack_power), default=0.0)
    limit = "" if c.rack_kw is None else f" of {c.rack_kw:g}"
    total = sum(r.kw for r in c.rack_power)
    console.print(text(f"power by the floor plan: up to {most_kw:g}{limit} kW in a rack, {total:,.0f} kW in all"))
    console.print()
    _table(
        console,
        ("medium", "metres", "links"),
        ((row.medium, f"{row.length_m:g}", f"{row.links:,}") for row in c.lengths),
    )
    console.print()
    most = c.bundles[:5]
    _table(
        console,
        ("racks", "cables", "bundles"),
        ((f"{b.rack_a} to {b.rack_z}", f"{b.cables:,}", str(b.bundles)) for b in most),
    )
    if len(c.bundles) > len(most):
        console.print(text(f"and {len(c.bundles) - len(most)} other pairs of racks (--json lists them)"))
    for tray in c.crowded_trays:
        console.print(
            text(f"the tray above {tray.rack} carries {tray.cables:,} cables, more than it has room for", "yellow")
        )
    console.print()
    console.print(text(f"plugs: {_watts(c.watts, c.watts_unknown)}"))
    _bill(c.bill, console)
    console.print()
    _locations(c.locations, c.bill.currency, console)


def _locations(locations: Sequence[SwitchPlace], currency: str, console: Console) -> None:
    """Print what other positions of the switches would cost in addition, and what the best position saves compared with
    the worst."""
    _table(
        console,
        ("switches at", "metres", "optical", currency),
        (
            (p.switches, UNKNOWN, UNKNOWN, p.why_not)
            if p.why_not
            else (p.switches, f"{p.metres:,.0f}", f"{p.optical_links:,}", _range(p.low, p.high))
            for p in locations
        ),
    )
    possible = [p for p in locations if not p.why_not]
    if len(possible) < 2:
        return
    middle = lambda p: (p.low + p.high) / 2
    key = lambda p: (middle(p), p.optical_links, p.metres)
    best, worst = min(possible, key=key), max(possible, key=key)
    if best == worst:
        return
    saved = [
        f"{currency} {middle(worst) - middle(best):,.0f} (middle prices)",
        f"{(worst.optical_links or 0) - (best.optical_links or 0):,} optical links",
        f"{(worst.metres or 0.0) - (best.metres or 0.0):,.0f} m of cable",
    ]
    console.print(text(f"switches at the {best.switches} save over the {worst.switches}: {', '.join(saved)}"))
    if worst.without_price:
        console.print(text(f"the saving leaves out {counted(worst.without_price, 'item')} of unknown price", "yellow"))


def _bill(bill: BillOfMaterials, console: Console) -> None:
    _table(
        console,
        ("item", "part", "count", "spares", bill.currency),
        (
            (
                i.item,
                i.part,
                f"{i.count:,}",
                UNKNOWN if i.spares is None else str(i.spares),
                _range(i.total_low, i.total_high),
            )
            for i in bill.items
        ),
    )
    open_items = len(bill.without_price)
    left = f", without {counted(open_items, 'item')} of unknown price" if open_items else ""
    console.print(text(f"in all {bill.currency} {_range(bill.low, bill.high)} (prices of {bill.prices_of}){left}"))


def print_cost(c: CostSheet, console: Console) -> None:
    """Print the cost of a fabric over the years of the cost book."""
    console.print(text(f"{c.fabric or c.source}: cost over {c.years:g} years", "bold"))
    console.print()
    _bill(c.bill, console)
    currency = c.bill.currency
    console.print(text(f"power: {_watts(c.watts, c.watts_unknown)}"))
    energy = "the cost book has no tariff" if c.energy is None else f"{currency} {_money(c.energy)}"
    partly = "  (only of the known power)" if c.watts_unknown and c.energy is not None else ""
    if c.energy is not None and not c.watts:
        energy, partly = UNKNOWN, ""
    console.print(text(f"energy and cooling: {energy}{partly}"))
    open_items = len(c.bill.without_price)
    omitted = ["energy"] if c.energy is None else []
    if open_items:
        omitted.append(f"{counted(open_items, 'item')} of unknown price")
    left = f", without {' and '.join(omitted)}" if omitted else ""
    console.print(text(f"total: {currency} {_money(c.total)}{left}", "bold"))
    if c.gpu_hour is not None:
        useful = "useful " if c.scaling else ""
        low, high = c.gpu_hour.low, c.gpu_hour.high
        console.print(text(f"network for a {useful}GPU-hour: {currency} {low:.3f} to {high:.3f}"))
    console.print()
    _networks(c.networks, currency, console)
    if c.scaling:
        console.print()
        _table(
            console,
            ("GPUs", "step", "efficiency", "relative", f"network, {currency}", f"{currency} for a useful GPU-hour"),
            (
                (
                    f"{r.gpus:,}",
                    time_text(r.step_us * 1e6),
                    _percent(r.efficiency),
                    _percent(r.relative),
                    _money(r.price),
                    UNKNOWN if r.gpu_hour is None else f"{r.gpu_hour.low:.3f} to {r.gpu_hour.high:.3f}",
                )
                for r in c.scaling
            ),
        )
        console.print(
            text("network: the first design for that number of GPUs, counting complete switches, without energy")
        )


def _networks(networks: Sequence[NetworkPrice], currency: str, console: Console) -> None:
    """Print the cost of Ethernet of the same rate, and the number of host ports that the same money buys."""
    console.print(text("only adapters, switch ports and cables", "bold"))
    _table(
        console,
        ("network", currency, f"host ports for the money of {networks[0].network}"),
        (
            (
                n.network,
                _money(n.price),
                UNKNOWN if n.host_ports_for_the_same_money is None else f"{n.host_ports_for_the_same_money:,}",
            )
            for n in networks
        ),
    )
    for n in networks:
        if n.price_missing:
            console.print(text(f"no price of {', '.join(n.price_missing)}; give it with --prices FILE", "yellow"))
    console.print(text("by middle prices, without hosts; softib advise WORKLOAD compares times"))


def print_growth(g: AddedHosts, console: Console) -> None:
    """Print the parts for more hosts."""
    console.print(text(f"{counted(g.hosts, 'host')} with {counted(g.adapters, 'adapter')} more", "bold"))
    bought = counted(len(g.new_leaves), "leaf", "leaves")
    above = f", {counted(g.new_upper_switches, 'switch')} above the leaves" if g.new_upper_switches else ""
    console.print(text(f"buy {bought}{above} and {counted(len(g.cables), 'cable')} (listed); move {g.moved_cables:,}"))
    console.print(text(f"most oversubscribed leaf afterwards: {g.oversubscription:.2f} : 1"))
    for note in g.notes:
        console.print(text(note, "yellow"))
    console.print()
    end = lambda cable, side: f"{getattr(cable, f'node_{side}')}[{getattr(cable, f'port_{side}')}]"
    _first(console, ("new cable", ""), [(end(c, "a"), end(c, "z")) for c in g.cables])
    if g.moves:
        console.print()
        rows = [(end(m, "a"), f"{m.from_node}[{m.from_port}]", end(m, "z")) for m in g.moves]
        _first(console, ("moves", "from", "to"), rows)


def _first(console: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the first rows of a list of cables."""
    _table(console, head, rows[:SHOWN])
    if len(rows) > SHOWN:
        console.print(text(f"and {len(rows) - SHOWN:,} others (--json lists them)"))


def print_quote(differences: Sequence[QuoteDifference], notes: Sequence[str], console: Console) -> None:
    """Print missing and surplus items of a quote."""
    for d in differences:
        excess = d.offered - d.needed
        line = f"{excess:,} too many: {d.item} ({d.offered:,} for {d.needed:,})"
        if excess < 0:
            line = f"{-excess:,} too few: {d.item} ({d.offered:,} of {d.needed:,})"
        if not d.needed:
            line = f"not needed: {d.offered:,} {d.item}"
        console.print(text(line, "yellow"))
    for note in notes:
        console.print(text(note))
    if not differences:
        console.print(text("the quote has every piece that the fabric needs"))


def print_advice(a: Recommendation, console: Console) -> None:
    """Print which network a workload needs, and why."""
    headline = {"ethernet": "Ethernet is enough", "infiniband": "use InfiniBand", "either": "either; cost decides"}
    console.print(text(headline[a.verdict], "bold"))
    for reason in a.reasons:
        mark = "decides" if reason.decides else reason.verdict
        console.print(text(f"  [{mark}] {reason.reason}"))
    if a.messages:
        m = a.messages
        console.print()
        console.print(text(f"{counted(m.messages, 'message')} of {m.mean_bytes:,.0f} bytes in the mean"))
        rows = [(k, f"{v['half'] - 1:+.0%}", f"{v['double'] - 1:+.0%}") for k, v in m.sensitivity.items()]
        if rows:
            _table(console, ("time with", "half", "double"), rows)
    if a.networks:
        console.print()
        _table(
            console,
            ("network", "time", "ratio", "price", "per price"),
            (
                (
                    n.network,
                    UNKNOWN if n.completion_us is None else time_text(n.completion_us * 1e6),
                    UNKNOWN if n.ratio is None else f"{n.ratio:.2f}",
                    _money(n.price),
                    UNKNOWN if n.per_price is None else f"{n.per_price:.2f}",
                )
                for n in a.networks
            ),
        )
    for n in a.networks:
        if n.why:
            console.print(text(f"{n.network} was not run: {n.why}"))
    for b in a.break_even:
        line = f"{b.ethernet} takes {b.time_ratio:.2f} times as long as {b.infiniband}: it pays from a price of "
        price = (
            ""
            if b.price_ratio is None
            else f"; at middle prices {b.infiniband} costs {b.price_ratio:.2f} times {b.ethernet}"
        )
        console.print(text(f"{line}{1 / b.time_ratio:.0%} of {b.infiniband}'s or less{price}"))
    for note in a.notes:
        console.print(text(note))


def print_devices(d: DeviceCatalogue, console: Console) -> None:
    """Print the catalogue; for a single device, print each figure with its source."""
    if len(d.devices) == 1:
        (device,) = d.devices
        console.print(text(f"{device.name}: {device.kind}, {device.generation}", "bold"))
        rows = ((f.figure, UNKNOWN if f.value is None else _figure(f), f.source or "") for f in device.figures)
        for figure, value, source in rows:
            console.print(text(f"{figure:<22}  {value:>8}  {source}".rstrip()))
        return
    counts = (
        (r.name, r.kind, r.generation, str(r.sourced), str(r.assumed), str(r.fitted), str(r.unknown)) for r in d.devices
    )
    _table(console, ("device", "kind", "generation", "sourced", "assumed", "fitted", "unknown"), counts)
    console.print()
    console.print(
        text(
            f"{len(d.devices)} devices and cables: {d.sourced} figures with a source, {d.assumed} assumed, "
            f"{d.fitted} fitted to measurements, {d.unknown} unknown"
        )
    )


def _figure(f: Figure) -> str:
    if isinstance(f.value, bool):
        return "yes" if f.value else "no"
    return f"{f.value:#x}" if f.figure.startswith("perf_capability") else f"{f.value:g}"
