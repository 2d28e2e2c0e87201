"""``softib why``: find the faulty part from the logs of a failed job."""

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
    help="Forwarding tables (a dump) for a file without them.",
)
@click.option(
    "--history",
    type=InputFolder(),
    metavar="DIR",
    help="A directory of softib exporter --history.",
)
@click.option("--hosts", metavar="LIST", help="The job's hosts, for logs without ports: node-[01-16], or a file.")
@click.option(
    "--at",
    "at",
    metavar="TIME",
    help="Time of the failure, for logs without times: 90m (ago), or 2026-11-24T08:00 (UTC).",
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
    """Find the causes of a failed job, with probability, evidence and next action. LOG is output of
    NCCL (NCCL_DEBUG=INFO), PyTorch, UCX, Open MPI, perftest or any program on verbs; also dmesg,
    Slurm's messages, opensm.log, UFM's events, and dumps of PyTorch's flight recorder. Several LOGs are
    combined.

    \b
    softib why job.log --fabric pod --history /var/lib/softib
    softib why rank*.log dmesg.txt --fabric site.ibnetdiscover --lfts site.lft
    softib why job.log                              # only the log
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
