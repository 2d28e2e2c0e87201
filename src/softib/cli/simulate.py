"""``softib simulate``: a workload on a fabric, in virtual time."""

from __future__ import annotations

import time

import click

from softib.cli import completing
from softib.cli.output import (
    SHOW_S,
    Steps,
    checked_engines,
    print_json,
    print_notice,
    print_problems,
    show_line,
    show_progress,
    source_options,
)

LAYERS = ("static", "fluid", "packet")
SMS = ("internal", "off")


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.argument("workload", shell_complete=completing.files)
@click.option("--layer", type=click.Choice(LAYERS), default="fluid", show_default=True,
              help="packet: credits, queues, arbitration; fluid: fair rates of flows; static: loads of links.")  # fmt: skip
@click.option(
    "--engine",
    metavar="E",
    callback=checked_engines,
    shell_complete=completing.engines,
    help="Routing engine by OpenSM's name, or a list of them, for a fabric without tables.",
)
@click.option("--lfts", metavar="F", type=click.Path(), help="Take these forwarding tables (a dump) instead.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random draws.")
@click.option(
    "--what-if",
    "what_if",
    metavar="CHANGE",
    help="Run it once more with something changed: engine=updn, ar=on, cc=on, network=roce.",
)
@click.option("--network", metavar="N", default="infiniband", show_default=True,
              help="The same cables as Ethernet: roce or tcp, with options as in roce,pfc=off,gbps=100 (--layer packet).")  # fmt: skip
@click.option("--fault", "faults", metavar="FAULT", multiple=True,
              help="Packet layer: something fails at a time: '20us link-down leaf-1[3]', '1ms ber leaf-1[3] ber=1e-9'. Repeatable.")  # fmt: skip
@click.option("--sm", type=click.Choice(SMS), default=None,
              help="Who reacts to faults: our subnet manager on the same virtual clock (default), or nobody.")  # fmt: skip
@click.option("--parquet", metavar="F", type=click.Path(), help="Write every message as a row of a Parquet file.")
@click.option(
    "--html", "html", metavar="F", type=click.Path(), help="Write a self-contained page: loads of links, latencies."
)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
@source_options
def command(
    source: str, workload: str, layer: str, engine: str | None, lfts: str | None, seed: int, what_if: str | None,
    network: str, faults: tuple[str, ...], sm: str | None, parquet: str | None, html: str | None, as_json: bool, ibnl: tuple[str, ...], node_name_map: str | None,
) -> int:  # fmt: skip
    """Run WORKLOAD on SOURCE in virtual time.

    WORKLOAD is a pattern with its size and options, such as permutation:2MB or incast:64KB,senders=16,start=10us, or a YAML file of
    jobs. Patterns: permutation, shift, all-to-all, random-pairs, bisection, incast, parking-lot, hot-spot, latency, bandwidth,
    message-rate, matrix. A fabric without forwarding tables is brought up by the subnet manager first. Exit 1 when not every message
    completed, 2 when the question was wrong.
    """
    import softib

    fabric = softib.load(
        source, ibnl=ibnl, node_name_map=node_name_map, notice=print_notice, steps=Steps(), progress=show_progress
    )
    found = softib.simulate(
        fabric, workload, layer=layer, engine=engine, lfts=lfts, seed=seed, what_if=what_if,
        faults={"faults": faults, "management": {"sm": sm} if sm else {}}, progress=Progress(), network=network,
    )  # fmt: skip
    if parquet:
        found.to_parquet(parquet)
    if html:
        found.to_html(html)
    for what, path in (("messages", parquet), ("page", html)):
        if path:
            print_notice(f"{what} written to {path}")
    if as_json:
        print_json(found.to_json())
    else:
        print_problems(fabric.problems)
        found.print()
    return 0 if found.good else 1


class Progress:
    """A line on a terminal: how much is done, and how long the rest takes at this pace."""

    def __init__(self) -> None:
        self.began = self.shown = time.monotonic()

    def __call__(self, done: int, of: int, now_ps: int) -> None:
        now = time.monotonic()
        if now - self.shown < SHOW_S and done < of:
            return
        self.shown = now
        left = (now - self.began) * (of - done) / max(done, 1)
        rest = f", {left:.0f} s left" if done < of else ""
        show_line(f"{done / max(of, 1):.0%} of {of:,}, virtual time {now_ps / 1e6:,.1f} us{rest}" if done < of else "")
