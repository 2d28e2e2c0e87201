"""``softib calibrate``: describe a machine with constants fitted to a benchmark that ran on it."""

from __future__ import annotations

import os

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import Load, json_option, source_options
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems


@click.command()
@click.argument("log", type=InputFile(), shell_complete=completing.files)
@click.option("--source", metavar="SOURCE", help="The fabric on which the benchmark ran; required for OSU logs.")
@click.option(
    "--workload",
    metavar="W",
    default="",
    help="The job, if the log does not describe it completely, for example nccl-all-reduce,gpudirect=phb or "
    "mpi-allreduce,ranks-per-host=8.",
)
@click.option(
    "--machine",
    metavar="F",
    type=OutputFile(),
    help="Write the machine description to this file. If the file exists, the fit starts from the description in it.",
)
@json_option
@source_options
def command(log: str, source: str | None, workload: str, machine: str | None, as_json: bool, load: Load) -> int:
    """Fit a machine description to LOG, the output of nccl-tests or an OSU benchmark.

    Only constants that affect the message sizes in LOG are fitted. softib simulate --machine F uses the file that
    --machine writes.
    """
    import softib

    fabric = None if source is None else load(source, Steps())
    there = machine if machine is not None and os.path.isfile(machine) and os.path.getsize(machine) else ""
    result = softib.calibrate(log, fabric, workload=workload, machine=there)
    if machine is not None:
        result.write(machine)
        print_notice(f"machine written to {machine}")
    if as_json:
        print_json(result.to_json())
    else:
        if fabric is not None:
            print_problems(fabric.problems)
        result.print()
        if machine is None:
            click.echo(f"\n{result.text}", nl=False)
    return 0
