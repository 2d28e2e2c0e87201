"""``softib advise``: which network a workload needs."""

from __future__ import annotations

from typing import Any

import click

from softib.cli.shared import completing
from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_json

NETWORKS = click.Choice(("ethernet", "infiniband"))


@click.command()
@click.argument("workload", required=False, shell_complete=completing.files)
@click.option("--hosts", type=click.IntRange(min=1), metavar="N", help="Nodes of the job.")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="GPUs of the job, in place of nodes.")
@click.option(
    "--gpus-per-host", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="GPUs of a node."
)
@click.option(
    "--kind",
    type=click.Choice(("training", "mpi", "storage", "service", "independent")),
    help="What the job is; default: by the workload's pattern.",
)
@click.option(
    "--calls", "calls_a_second", type=click.FloatRange(min=0), metavar="N", help="MPI collectives a second of a rank."
)
@click.option(
    "--step", "step_ms", type=click.FloatRange(min=0), metavar="MS", help="Milliseconds between exchanges of gradients."
)
@click.option("--storage", type=NETWORKS, help="Network of the parallel file system.")
@click.option("--existing", type=NETWORKS, help="Network that exists already.")
@click.option(
    "--no-staff",
    "staff",
    is_flag=True,
    default=True,
    flag_value=False,
    help="No one tunes lossless Ethernet or runs a subnet manager yet.",
)
@click.option(
    "--tenants", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Tenants of the fabric."
)
@click.option(
    "--prices",
    metavar="FILE",
    type=click.Path(),
    shell_complete=completing.files,
    help="A cost book (YAML) in place of softib's own.",
)
@json_option
def command(
    workload: str | None,
    hosts: int | None,
    gpus: int | None,
    gpus_per_host: int,
    kind: str | None,
    prices: str | None,
    as_json: bool,
    **facts: Any,
) -> int:
    """Advise on the network for WORKLOAD (as softib simulate takes it) or for the facts that the options state.

    The rules that decide come first; then time and money of each network, and the price at which the
    other would pay. When Ethernet is enough, it says so.
    """
    import softib

    if (hosts is None) == (gpus is None):
        raise click.UsageError("give --hosts or --gpus, one of the two")
    nodes = hosts if hosts is not None else -(-int(gpus or 0) // gpus_per_host)
    named: Any = kind or (softib.kind_of(workload) if workload is not None else "mpi")
    stated = {key: value for key, value in facts.items() if value is not None}
    found = softib.advise(
        softib.Facts(nodes, gpus or 0, named, **stated), workload, gpus_per_host=gpus_per_host, prices=prices
    )
    if as_json:
        print_json(found.to_json())
    else:
        found.print()
    return 0
