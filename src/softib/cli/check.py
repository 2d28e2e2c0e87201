"""``softib check``: findings only, and an exit code that scripts can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli.guid_files import guid_file_options
from softib.cli.output import Steps, print_json, print_notice, print_problems, printable, show_progress, source_options

if TYPE_CHECKING:
    from collections import Counter

    from softib.analysis.model import Report

FORMATS = ("text", "json", "csv", "sarif", "junit")
SEVERITIES = ("info", "warning", "error")


@click.command()
@click.argument("source")
@click.option(
    "--plan",
    "plans",
    metavar="F",
    type=click.Path(),
    multiple=True,
    help="Compare every cable with this plan (a cabling list, a fabric.yaml, or any fabric file). Several lists (--plan A "
    "--plan B) make one plan.",
)
@click.option("--all", "every", is_flag=True, help="Show every finding; without it many of one kind are cut short.")
@click.option("--severity", type=click.Choice(SEVERITIES), default="info", show_default=True,
              help="Tell, and judge by, findings of at least this severity.")  # fmt: skip
@click.option(
    "--ignore", "ignored", multiple=True, metavar="CODE", help="Leave findings of this code out (repeatable)."
)
@click.option("--baseline", metavar="F", type=click.Path(), help="Leave out what this file of --write-baseline knows.")
@click.option("--write-baseline", metavar="F", type=click.Path(), help="Write what was found as known, and exit 0.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
              help="How findings are printed: csv for tables, SARIF 2.1.0, JUnit XML for CI servers.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout: --format json.")
@source_options
@guid_file_options
def command(
    source: str, plans: tuple[str, ...], every: bool, severity: str, ignored: tuple[str, ...], baseline: str | None,
    write_baseline: str | None, form: str, as_json: bool, ibnl: tuple[str, ...], node_name_map: str | None,
    guid_files: dict[str, str | None],
) -> int:  # fmt: skip
    """Check SOURCE ("-": stdin) and print what was found.

    Exit 1 when there is a finding of severity warning or error among those shown, such as a record that could not be
    read; information alone is exit 0.
    """
    from softib.analysis.pipeline import checked
    from softib.diags.baseline import read_baseline
    from softib.diags.baseline import write_baseline as write
    from softib.diags.finding import Severity
    from softib.source import load

    if as_json and form not in ("text", "json"):
        raise click.UsageError(f"--json and --format {form}: give one of the two")
    form = "json" if as_json else form
    _check_codes(ignored)
    known = None if baseline is None else read_baseline(baseline)  # fail before the work
    steps = Steps()
    with steps("reading"):
        result = load(source, ibnl, node_name_map, notice=print_notice, progress=show_progress)
    report = checked(source, result, plan=plans, guid_files=guid_files, steps=steps)
    least = Severity[severity.upper()]
    report.findings = [f for f in report.findings if f.code not in ignored and f.severity >= least]
    if write_baseline is not None:
        write(report.findings, write_baseline)
        n = len(report.findings)
        click.echo(
            printable(f"softib: {n} finding{'' if n == 1 else 's'} written to {write_baseline} as known"), err=True
        )
        return 0
    if known is not None:
        _leave_known(report, known, str(baseline))
    bad = any(f.severity >= Severity.WARNING for f in report.findings)
    _print(report, form, every)
    return int(bad)


def _check_codes(ignored: tuple[str, ...]) -> None:
    """Raises :class:`UnknownName` for a code that no check has."""
    from softib.diags.check import CODES
    from softib.errors import UnknownName

    for name in ignored:
        if name not in CODES:
            raise UnknownName("finding code", name, CODES)


def _leave_known(report: Report, known: Counter[str], path: str) -> None:
    """Take the findings that are known out of ``report``, and say how many."""
    from softib.diags.baseline import new_findings

    report.findings, same, resolved = new_findings(report.findings, known)
    note = f"{same} known finding{'' if same == 1 else 's'} of {path} not shown"
    note += f"; {resolved} of it {'is' if resolved == 1 else 'are'} resolved" if resolved else ""
    report.notes.append(note)


def _print(report: Report, form: str, every: bool) -> None:
    if form == "json":
        from softib.render.as_json import findings_json

        print_json(findings_json(report))
        return
    print_problems(report.problems)
    if form != "text":
        from softib.render.findings_out import FORMATS as WRITERS

        for note in report.notes:
            click.echo(printable(f"softib: {note}"), err=True)
        click.echo(WRITERS[form](report), nl=False)
        return
    from rich.console import Console

    from softib.render.terminal import print_check

    print_check(report, Console(), every)
