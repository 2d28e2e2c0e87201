"""``softib compare``: a workload over generations of InfiniBand, RoCE and TCP, side by side."""

from __future__ import annotations

import click

from softib.cli.predict.simulate import LAYERS, Progress
from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import Load, checked_engines, json_option, seed_option, source_options
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.argument("workload", shell_complete=completing.files)
@click.option(
    "--network",
    "networks",
    metavar="N",
    multiple=True,
    help=(
        "A generation (NDR), or roce or tcp with options, for example roce,gbps=100. Repeatable; default: EDR, HDR, "
        "NDR, "
        "XDR, roce, tcp."
    ),
)
@click.option(
    "--layer",
    type=click.Choice(LAYERS),
    default="packet",
    show_default=True,
    help="Layer of the simulator; RoCE and TCP need the packet layer.",
)
@click.option(
    "--engine",
    metavar="E",
    callback=checked_engines,
    shell_complete=completing.engines,
    help="Routing engine by OpenSM's name, for a fabric without tables.",
)
@seed_option
@click.option(
    "--prices",
    "prices",
    metavar="FILE",
    type=InputFile(),
    shell_complete=completing.files,
    help="A cost book (YAML) instead of softib's.",
)
@click.option("--html", "html", metavar="F", type=OutputFile(), help="Write a self-contained page.")
@json_option
@source_options
def command(
    source: str,
    workload: str,
    networks: tuple[str, ...],
    layer: str,
    engine: str | None,
    seed: int,
    prices: str | None,
    html: str | None,
    as_json: bool,
    load: Load,
) -> int:
    """Run WORKLOAD on SOURCE over several networks, and show them side by side: completion, p50 and
    p99 latency, CPU share, price.

    A generation keeps the graph and changes link speeds, adapters and switches. RoCE and TCP run over the same cables
    at the data rate of SOURCE's links. WORKLOAD is the same as for softib simulate. Exit 1 if a message did not
    complete; exit 2 if the input is invalid or a network named with --network could not be run.
    """
    import softib

    fabric = load(source, Steps())
    more = {"networks": networks} if networks else {}
    comparison = softib.compare(
        fabric,
        workload,
        layer=layer,
        engine=engine,
        seed=seed,
        record=softib.Record(progress=Progress(layer)),
        prices=prices,
        **more,
    )
    if html:
        comparison.to_html(html)
        print_notice(f"page written to {html}")
    if as_json:
        print_json(comparison.to_json())
    else:
        print_problems(fabric.problems)
        comparison.print()
    if networks and comparison.errors:
        return 2
    return 0 if comparison.good else 1
