"""``softib ci``: a fabric for the duration of a command, in continuous integration."""

from __future__ import annotations

import sys

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFolder
from softib.cli.shared.numbers import Number
from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_json, print_notice


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--source",
    metavar="SOURCE",
    shell_complete=completing.sources,
    help="The fabric (default: eight hosts on four leaves, a fat tree).",
)
@click.option(
    "--node",
    metavar="NODE[,NODE...]",
    help="Run PROGRAM on each of these nodes at the same time (default: the first host).",
)
@click.option(
    "--file",
    "file",
    metavar="FILE",
    type=InputFile(),
    help=("A file with a command for each node, and optionally the fabric and faults (YAML)."),
)
@click.option(
    "--fault",
    "faults",
    metavar="KIND[ PLACE[ RATE]]@TIME",
    multiple=True,
    help=(
        "Inject a fault at a given time, for example 'link-down@2s' (without PLACE: on the path between the nodes); "
        "repeatable."
    ),
)
@click.option("--net", is_flag=True, help="Run the commands in the networks of the nodes, with IP over InfiniBand.")
@click.option(
    "--allow-ip",
    is_flag=True,
    help="With --net: also pass if no data moved through verbs, but some through IP over InfiniBand.",
)
@click.option(
    "--artifacts",
    metavar="DIR",
    default="softib-ci",
    show_default=True,
    type=OutputFolder(),
    help="Folder for junit.xml and, after a failure, capture, counters, output and log.",
)
@click.option(
    "--timeout",
    type=Number(0.1, 86_400),
    metavar="S",
    default=3600,
    show_default=True,
    help="Time limit in seconds; after it, exit with code 124.",
)
@json_option
@click.argument("program", nargs=-1, shell_complete=completing.files)
def command(
    source: str | None,
    node: str | None,
    file: str | None,
    faults: tuple[str, ...],
    net: bool,
    allow_ip: bool,
    artifacts: str,
    timeout: float,
    as_json: bool,
    program: tuple[str, ...],
) -> int:
    """Start a fabric, run PROGRAM on it, stop it: exit with PROGRAM's code, or 3 if verbs moved
    no data.

    \b
    softib ci -- pytest tests/rdma
    softib ci --node host-0001,host-0002 --fault link-down@2s -- ./job
    softib ci --file ci.yaml

    After a failed run, the --artifacts folder contains a capture of all MADs, the counters, the output and the log.
    """
    import softib

    if program and file is not None:
        raise click.UsageError(f"both --file and a program ({program[0]}) are given; leave out one of them")
    if not program and file is None:
        raise click.UsageError("add a program (softib ci -- CMD ...) or --file FILE")
    if file is not None and node is not None:
        raise click.UsageError("--file names the nodes; leave out --node")
    if allow_ip and not net:
        raise click.UsageError("--allow-ip needs --net: without it PROGRAM has no IP over InfiniBand")
    run = softib.ci(
        list(program) if file is None else file,
        source=source,
        nodes=[n.strip() for n in node.split(",")] if node else (),
        faults=faults,
        net=net,
        allow_ip=allow_ip,
        artifacts=artifacts,
        timeout=timeout,
        output=sys.stderr.buffer if as_json else None,
        notice=print_notice,
    )
    if as_json:
        print_json(run.to_json())
    print_notice(run.line())
    return run.exit_code
