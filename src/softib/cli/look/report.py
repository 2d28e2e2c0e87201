"""``softib report``: all results in one report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import Load, guid_file_options, json_option, plan_option, source_options, table_options
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.option(
    "--html",
    "html",
    metavar="F",
    type=OutputFile(),
    help="Write the whole report as one self-contained HTML file.",
)
@plan_option
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random traffic patterns."
)
@click.option(
    "--traffic",
    metavar="F",
    type=InputFile(),
    help="Also predict this traffic matrix: lines of source,destination,bytes, or a square matrix with names (CSV).",
)
@json_option
@source_options
@guid_file_options
@table_options
def command(
    source: str,
    html: str | None,
    plans: tuple[str, ...],
    engine: str | None,
    lfts: str | None,
    seed: int,
    traffic: str | None,
    as_json: bool,
    load: Load,
    guid_files: dict[str, str | None],
) -> int:
    """Read SOURCE, bring it up with the subnet manager over MADs, prove its routing, check it,
    predict its traffic.

    SOURCE is a file of any known format (ibnetdiscover, iblinkinfo, ibsim, .topo, .lst, .db_csv,
    .net_dump) or a fabric.yaml. Findings do not change the exit code; use ``softib check`` for
    that.
    """
    import softib

    if html:
        when, line = _stamp()  # fail before the work
    steps = Steps()
    fabric = load(source, steps)
    report = softib.report(
        fabric, plan=plans, engine=engine, lfts=lfts, guid_files=guid_files, seed=seed, traffic=traffic, steps=steps
    )
    if html:
        report.to_html(html, when=when, command=line, steps=steps)
    if as_json:
        print_json(report.to_json())
        return 0
    print_problems(p for p in report.problems if not p.code)  # problems with a code are findings
    report.print()
    if html:
        print_notice(f"report written to {html}")
    return 0


def _stamp() -> tuple[datetime, str]:
    """Return the time that the page shows (now, or SOURCE_DATE_EPOCH, see reproducible-builds.org), and the command
    line."""
    import os
    import shlex
    import sys
    from datetime import UTC, datetime

    from softib.errors import InputError

    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        when = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"SOURCE_DATE_EPOCH={epoch}: use seconds since 1970, for example 1700000000") from None
    return when, shlex.join(["softib", *sys.argv[1:]])
