"""``softib report``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from softib.cli.guid_files import guid_file_options
from softib.cli.output import Steps, print_json, print_notice, print_problems, printable, show_progress, source_options

if TYPE_CHECKING:
    from softib.analysis.model import Made


@click.command()
@click.argument("source")
@click.option(
    "--html", "html", metavar="F", type=click.Path(), help="Write the whole report as one self-contained HTML file."
)
@click.option(
    "--plan",
    "plans",
    metavar="F",
    type=click.Path(),
    multiple=True,
    help="Compare every cable with this plan (a cabling list, a fabric.yaml, or any fabric file). Several lists (--plan A "
    "--plan B) make one plan.",
)
@click.option(
    "--engine",
    metavar="E",
    help="Routing engine by OpenSM's name, or a list of them: minhop, updn, dnup, ftree. Default ftree,updn: updn where the fabric is no tree.",
)
@click.option(
    "--lfts", metavar="F", type=click.Path(), help="Use these forwarding tables (a dump) instead of a bring-up."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random traffic patterns."
)
@click.option(
    "--traffic", metavar="F", type=click.Path(),
    help="Predict this traffic matrix too: lines of source,destination,bytes, or names along both sides (CSV).",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
@source_options
@guid_file_options
def command(
    source: str, html: str | None, plans: tuple[str, ...], engine: str | None, lfts: str | None, seed: int,
    traffic: str | None, as_json: bool, ibnl: tuple[str, ...], node_name_map: str | None,
    guid_files: dict[str, str | None],
) -> int:  # fmt: skip
    """Read SOURCE, bring it up with the subnet manager over MADs, prove its routing, check it, predict its traffic.

    SOURCE is a file of any known format (ibnetdiscover, ibsim, .topo, .lst, .db_csv) or a fabric.yaml. Findings do not
    change the exit code; ``softib check`` is for that.
    """
    from softib.analysis.pipeline import build
    from softib.analysis.routed import check_choice
    from softib.source import load

    check_choice(engine, lfts, guid_files)
    if html:
        _check_target(html)
        made = _made()
    steps = Steps()
    with steps("reading"):
        result = load(source, ibnl, node_name_map, notice=print_notice, progress=show_progress)
    report = build(
        source,
        result,
        plan=plans,
        engine=engine,
        lfts=lfts,
        guid_files=guid_files,
        seed=seed,
        traffic=traffic,
        steps=steps,
    )
    if html:
        report.made = made
        with steps("drawing"):
            _write(report, html)
    report.seconds.update(steps.seconds)
    if as_json:
        from softib.render.as_json import to_json

        print_json(to_json(report))
        return 0
    from rich.console import Console

    from softib.render.terminal import to_terminal

    print_problems(report.problems)
    to_terminal(report, Console())
    if html:
        click.echo(printable(f"softib: report written to {html}"), err=True)
    return 0


def _made() -> Made:
    """Now, or the moment that SOURCE_DATE_EPOCH tells (reproducible-builds.org), and this command."""
    import os
    import shlex
    import sys
    from datetime import UTC, datetime

    from softib import __version__
    from softib.analysis.model import Made
    from softib.errors import InputError

    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        when = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"SOURCE_DATE_EPOCH={epoch}: give seconds since 1970, such as 1700000000") from None
    return Made(when.strftime("%Y-%m-%d %H:%M UTC"), __version__, shlex.join(["softib", *sys.argv[1:]]))


def _check_target(html: str) -> None:
    """Fail before the work, not after it."""
    from softib.errors import InputError

    path = Path(html)
    if path.is_dir():
        raise InputError(f"{html}: this is a directory; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{html}: cannot write there: {error.strerror or error}") from None


def _write(report: object, html: str) -> None:
    from softib.analysis.model import Report
    from softib.errors import InputError
    from softib.render.html import to_html

    assert isinstance(report, Report)
    try:
        Path(html).write_text(to_html(report), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{html}: cannot write: {error.strerror or error}") from None
