"""``softib plan`` (designs, cables, cost, a vendor's quote) and ``softib advise``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile, OutputFolder
from softib.cli.shared.numbers import Number
from softib.cli.shared.options import Load, json_option, source_options
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems, print_result

if TYPE_CHECKING:
    from softib import CablePlan


@click.group()
def command() -> None:
    """Plan a fabric: designs for a demand, cables on a floor, their cost, a vendor's quote."""


def _prices(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--prices",
        metavar="FILE",
        type=InputFile(),
        shell_complete=completing.files,
        help="A cost book (YAML) instead of softib's.",
    )(function)


def _floor(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--generation", metavar="G", help="Generation of the cables (default: that of the fastest link)."),
        click.option(
            "--shared",
            type=click.IntRange(min=0),
            metavar="N",
            help=(
                "Which adapters of each host of SOURCE are on each --ancillary fabric; default: those with the same "
                "host name."
            ),
        ),
        click.option(
            "--ancillary",
            metavar="SOURCE",
            multiple=True,
            shell_complete=completing.sources,
            help="Another fabric on the same floor, for example a storage fabric.",
        ),
        click.option(
            "--floor",
            metavar="FILE",
            required=True,
            type=InputFile(),
            shell_complete=completing.files,
            help="Floor plan (YAML): rows, racks, and the rack units of a host (see docs/plan.md).",
        ),
    ):
        function = option(function)
    return _prices(function)


@command.command()
@click.option("--hosts", type=click.IntRange(min=1), metavar="N", help="Hosts.")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="Number of GPUs, instead of hosts.")
@click.option(
    "--budget",
    type=Number(min=0, min_open=True),
    metavar="SUM",
    help=(
        "Maximum price of the network, instead of hosts: the design has the largest number of GPU hosts within this "
        "price."
    ),
)
@click.option(
    "--gpus-per-host", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="GPUs per host."
)
@click.option(
    "--adapters", type=click.IntRange(1, 64), metavar="N", help="Adapters per host; default: 1, or one per GPU."
)
@click.option("--generation", default="NDR", show_default=True, metavar="G", help="Generation of the links.")
@click.option("--radix", type=click.IntRange(4, 254), metavar="N", help="Ports of a switch; default: the catalogue's.")
@click.option(
    "--oversubscription",
    type=Number(1, 60),
    default=1.0,
    show_default=True,
    metavar="R",
    help="Ratio of host ports to uplinks of a leaf.",
)
@click.option(
    "--storage-ports",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of ports of each host on a storage fabric.",
)
@click.option(
    "--storage-hosts",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Number of storage servers, each with one port on the storage fabric.",
)
@click.option("--name", default="design", show_default=True, help="Name of the fabric.")
@click.option("--save", metavar="DIR", type=OutputFolder(), help="Write the fabric.yaml of each design into DIR.")
@json_option
@_prices
def design(
    hosts: int | None,
    gpus: int | None,
    budget: float | None,
    gpus_per_host: int,
    adapters: int | None,
    save: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Compare the designs for --hosts or --gpus: switches, cables, bisection, price, failures, growth.

    Each design is built and brought up by the subnet manager, intact and with a failed leaf, spine and cable. --save
    writes it as fabric.yaml, for softib check, simulate, up and plan cables.
    """
    import softib

    if sum(value is not None for value in (hosts, gpus, budget)) != 1:
        raise click.UsageError("use one of --hosts, --gpus and --budget")
    links = {key: options.pop(key) for key in ("generation", "radix", "oversubscription", "name")}
    if hosts is None:
        demand = softib.Demand.of_gpus(gpus or gpus_per_host, gpus_per_host, adapters, **links)
        if gpus and gpus % gpus_per_host:
            print_notice(f"{gpus:,} GPUs do not fill hosts of {gpus_per_host}; the last host has slots for more")
    else:
        demand = softib.Demand(hosts, adapters or 1, **links)
    result = softib.plan_design(demand, budget=budget, steps=Steps(), **options)
    if save is not None:
        for path in result.save(save):
            print_notice(f"written: {path}")
    print_result(result, as_json)
    return 0


@command.command()
@click.argument("source", shell_complete=completing.sources)
@click.option("--hosts", type=click.IntRange(min=1), required=True, metavar="N", help="Number of hosts to add.")
@click.option(
    "--adapters",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Adapters of each new host; default: as the hosts of SOURCE.",
)
@json_option
@source_options
def grow(source: str, hosts: int, adapters: int | None, as_json: bool, load: Load) -> int:
    """Show where to connect --hosts additional hosts to SOURCE, the parts to buy, and the cables to move."""
    import softib

    fabric = load(source, Steps())
    growth = softib.plan_growth(fabric, hosts, adapters=adapters)
    print_problems(fabric.problems)
    print_result(growth, as_json)
    return 0


@command.command()
@click.argument("source", shell_complete=completing.sources)
@click.option(
    "--save",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=OutputFile(),
    help="Write FILE by its suffix: .csv (point-to-point list), .ufm, .labels, .svg (elevations), .xlsx (bill).",
)
@json_option
@_floor
@source_options
def cables(source: str, outputs: tuple[str, ...], as_json: bool, load: Load, **options: Any) -> int:
    """Place SOURCE on a floor plan, and list lengths and media of all cables, bundles, and the bill of materials.

    The point-to-point list reads back as the plan of softib check --plan.
    """
    plan = _plan(source, load, options)
    for path in outputs:
        plan.save(path)
        print_notice(f"written: {path}")
    print_result(plan, as_json)
    return 0


@command.command()
@click.argument("source", shell_complete=completing.sources)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of GPUs of the cluster; adds the cost of a GPU-hour.",
)
@click.option("--workload", metavar="W", help="A training step of all GPUs, as in softib simulate.")
@click.option("--scale", metavar="N,N", default="", help="Additional numbers of GPUs for a scaling curve.")
@click.option(
    "--save",
    "outputs",
    metavar="FILE",
    multiple=True,
    type=OutputFile(),
    help="Write FILE by its suffix: .svg or .csv (scaling curve), .xlsx (bill).",
)
@json_option
@_floor
@source_options
def cost(
    source: str,
    gpus: int | None,
    workload: str | None,
    scale: str,
    outputs: tuple[str, ...],
    as_json: bool,
    load: Load,
    **options: Any,
) -> int:
    """Show the bill of materials of SOURCE on a floor plan, its energy over five years, and the network's share of the
    cost of a GPU-hour."""
    import softib

    try:
        counts = [int(part) for part in scale.split(",") if part.strip()]
    except ValueError:
        raise click.UsageError(f"--scale {scale}: use comma-separated numbers of GPUs, for example 64,256") from None
    fabric = load(source, Steps())
    result = softib.plan_cost(fabric, gpus=gpus, workload=workload, scale=counts, **options)
    for path in outputs:
        result.save(path)
        print_notice(f"written: {path}")
    if as_json:
        print_json(result.to_json())
    else:
        print_problems(fabric.problems)
        result.print()
    return 0


@command.command("check-quote")
@click.argument("source", shell_complete=completing.sources)
@click.argument("quote", shell_complete=completing.files)
@json_option
@_floor
@source_options
def check_quote(source: str, quote: str, as_json: bool, load: Load, **options: Any) -> int:
    """Compare QUOTE, a vendor's bill of materials (CSV or XLSX), with the parts that SOURCE needs on a floor plan.

    Exit 1 if items are missing or not needed.
    """
    plan = _plan(source, load, options)
    result = plan.check_quote(quote)
    print_result(result, as_json)
    return 1 if result.differences else 0


@command.command()
@click.argument("name", required=False)
@json_option
def devices(name: str | None, as_json: bool) -> int:
    """List the catalogue of adapters, switches, Ethernet switches and cables, with the number of figures that have a
    source and that have none. With NAME, show each figure of that device with its source.
    """
    import softib

    print_result(softib.devices(name), as_json)
    return 0


def _plan(source: str, load: Load, options: dict[str, Any]) -> CablePlan:
    import softib

    fabric = load(source, Steps())
    cables = softib.plan_cables(fabric, **options)
    print_problems(fabric.problems)
    return cables


NETWORKS = click.Choice(("ethernet", "infiniband"))


@click.command()
@click.argument("workload", required=False, shell_complete=completing.files)
@click.option("--hosts", type=click.IntRange(min=1), metavar="N", help="Number of nodes of the job.")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="Number of GPUs of the job, instead of nodes.")
@click.option(
    "--gpus-per-host", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="GPUs per node."
)
@click.option(
    "--kind",
    type=click.Choice(("training", "mpi", "storage", "service", "independent")),
    help="Kind of the job (default: by the workload's pattern).",
)
@click.option(
    "--calls",
    "calls_a_second",
    type=Number(min=0),
    metavar="N",
    help="Number of MPI collectives per second on each rank.",
)
@click.option(
    "--step", "step_ms", type=Number(min=0), metavar="MS", help="Milliseconds between exchanges of gradients."
)
@click.option("--storage", type=NETWORKS, help="Network of the parallel file system.")
@click.option("--existing", type=NETWORKS, help="The network that the site already has.")
@click.option(
    "--no-staff",
    "staff",
    is_flag=True,
    default=True,
    flag_value=False,
    help="The site has no experience with lossless Ethernet or a subnet manager.",
)
@click.option(
    "--tenants",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of tenants of the fabric.",
)
@click.option(
    "--prices",
    metavar="FILE",
    type=InputFile(),
    shell_complete=completing.files,
    help="A cost book (YAML) instead of softib's.",
)
@json_option
def advise(
    workload: str | None,
    hosts: int | None,
    gpus: int | None,
    gpus_per_host: int,
    kind: str | None,
    prices: str | None,
    as_json: bool,
    **facts: Any,
) -> int:
    """Recommend a network for WORKLOAD (as in softib simulate) or for a job described by options. Print the deciding
    rules, the time and cost of each network, the break-even price, and whether Ethernet suffices for the job.
    """
    import softib

    if (hosts is None) == (gpus is None):
        raise click.UsageError("use one of --hosts and --gpus")
    nodes = hosts if hosts is not None else -(-int(gpus or 0) // gpus_per_host)
    named: Any = kind or (softib.kind_of(workload) if workload is not None else "mpi")
    given = click.get_current_context().get_parameter_source("gpus_per_host") is ParameterSource.COMMANDLINE
    if gpus is None and given:
        gpus = nodes * gpus_per_host
    stated = {key: value for key, value in facts.items() if value is not None}
    result = softib.advise(
        softib.Facts(nodes, gpus or 0, named, **stated), workload, gpus_per_host=gpus_per_host, prices=prices
    )
    print_result(result, as_json)
    return 0
