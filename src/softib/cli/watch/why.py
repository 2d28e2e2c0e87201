"""``softib why``: from what a failed job printed to the part at fault."""

from __future__ import annotations

import click

from softib.cli.shared import completing
from softib.cli.shared.clock import clock
from softib.cli.shared.named_files import InputFile, InputFolder
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Steps, print_json, print_lines


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...", shell_complete=completing.files)
@click.option(
    "--fabric",
    metavar="SOURCE",
    shell_complete=completing.sources,
    help="The fabric: running, or a file; its ports and paths.",
)
@click.option(
    "--lfts",
    type=InputFile(),
    metavar="F",
    help="Forwarding tables (a dump) of a file that has none.",
)
@click.option(
    "--history",
    type=InputFolder(),
    metavar="DIR",
    help="What softib exporter --history kept of the counters.",
)
@click.option("--hosts", metavar="LIST", help="The job's hosts, where its logs name no port: node-[01-16], or a file.")
@click.option(
    "--at",
    "at",
    metavar="TIME",
    help="When it failed, where the logs have no times: 90m (ago), or 2026-11-24T08:00 (UTC).",
)
@json_option
def command(
    logs: tuple[str, ...],
    fabric: str | None,
    lfts: str | None,
    history: str | None,
    hosts: str | None,
    at: str | None,
    as_json: bool,
) -> int:
    """Say why a job failed, from what it printed to the cable: causes with their probability, the evidence,
    and what to do next.

    LOG is what NCCL (NCCL_DEBUG=INFO), PyTorch, UCX, Open MPI, perftest or any program on verbs printed; dmesg,
    Slurm's messages, opensm.log and UFM's events beside it; dumps of PyTorch's flight recorder. Several at once.

    \b
    softib why job.log --fabric pod --history /var/lib/softib
    softib why rank*.log dmesg.txt --fabric site.ibnetdiscover --lfts site.lft
    softib why job.log                              # what the log alone tells
    """
    import softib

    result = softib.why(
        *logs,
        fabric=fabric,
        lfts=lfts,
        history=history,
        hosts=hosts or (),
        at=clock("--at", at),
        steps=Steps(),
    )
    if as_json:
        print_json(result.to_json())
    else:
        print_lines(result.text_lines())
    return 0
