"""``softib diagnose``: find bad cables from counters over time."""

from __future__ import annotations

from typing import Any

import click

from softib.cli.shared import completing
from softib.cli.shared.clock import clock
from softib.cli.shared.named_files import InputFile
from softib.cli.shared.observed import observed_fabric
from softib.cli.shared.options import all_option, every_option, rounds_option
from softib.cli.shared.output import Compiling, Steps, print_json, print_notice, print_problems, show_line
from softib.plural import counted


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing.sources)
@rounds_option
@every_option
@click.option(
    "--since",
    metavar="TIME",
    help="Start time in a history; 90m, 6h or 3d ago, or a clock time (UTC), for example 2026-11-24T08:00.",
)
@click.option("--until", metavar="TIME", help="End time in a history.")
@click.option(
    "--fabric",
    metavar="SOURCE",
    shell_complete=completing.sources,
    help="The fabric of files of perfquery or ibqueryerrors.",
)
@click.option(
    "--jobs",
    "jobs_file",
    type=InputFile(),
    metavar="FILE",
    help="Slurm's or Kubernetes' jobs, or YAML: each finding names those that cross it.",
)
@click.option(
    "--thresholds",
    type=InputFile(),
    metavar="FILE",
    help="Other thresholds than the shipped ones, YAML.",
)
@click.option(
    "--severity",
    type=click.Choice(["info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Minimum severity to show.",
)
@click.option(
    "--ignore", "ignored", multiple=True, metavar="CODE", help="Omit findings with this code; may be repeated."
)
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout, as in softib check.")
def command(
    sources: tuple[str, ...], rounds: int, every: float, fabric: str | None, jobs_file: str | None, **options: Any
) -> int:
    """Find bad cables, hosts and switch ports from the increase of counters.

    SOURCE is a running fabric or umad:DEVICE, which is read --rounds times; two .db_csv files or
    more of different times; the directory of softib exporter --history; or http://HOST:9090, a
    Prometheus server. Exit 1 if there are warnings or errors.

    \b
    softib diagnose pod --rounds 10 --every 60       # ten minutes of a running fabric
    softib diagnose monday.db_csv tuesday.db_csv     # a day, as ibdiagnet saw it
    """
    import softib

    softib.on_compiling(Compiling())
    steps = Steps()
    shown = lambda one: show_line(
        f"round: {counted(one['ports'], 'port')}, {counted(one['mads'], 'MAD')} in {one['seconds']:.1f} s"
    )
    seen = softib.observe(
        *sources,
        rounds=rounds,
        every=every,
        fabric=fabric,
        since=clock("--since", options["since"]),
        until=clock("--until", options["until"]),
        on_round=shown,
    )
    for problem in seen.problems:
        print_notice(str(problem))
    diagnosis = softib.diagnose(
        seen,
        observed_fabric(sources, fabric),
        jobs=jobs_file,
        thresholds=options["thresholds"],
        severity=options["severity"],
        ignore=options["ignored"],
        steps=steps,
    )
    if options["as_json"]:
        print_json(diagnosis.to_json())
    else:
        print_problems(diagnosis.problems)
        diagnosis.print(options["every_finding"])
    return 0 if diagnosis.good else 1
