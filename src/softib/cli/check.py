"""``softib check``: findings only, and an exit code that scripts can use."""

from __future__ import annotations

import click

from softib.cli.guid_files import guid_file_options
from softib.cli.output import Steps, print_json, print_problems, source_options


@click.command()
@click.argument("source")
@click.option(
    "--plan",
    metavar="F",
    type=click.Path(),
    help="Compare every cable with this plan (a cabling list, a fabric.yaml, or any fabric file).",
)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
@source_options
@guid_file_options
def command(
    source: str, plan: str | None, as_json: bool, ibnl: tuple[str, ...], node_name_map: str | None,
    guid_files: dict[str, str | None],
) -> int:  # fmt: skip
    """Check SOURCE and print what was found.

    Exit 1 when there is a finding of severity warning or error, or a record that could not be read; information alone
    is exit 0.
    """
    from softib.cli.source import load
    from softib.diags.finding import Severity
    from softib.report.as_json import findings_json
    from softib.report.build import checked

    steps = Steps()
    with steps("reading"):
        result = load(source, ibnl, node_name_map)
    report = checked(source, result, plan=plan, guid_files=guid_files, steps=steps)
    bad = bool(report.problems) or any(f.severity >= Severity.WARNING for f in report.findings)
    if as_json:
        print_json(findings_json(report))
        return int(bad)
    from rich.console import Console

    from softib.report.terminal import print_check

    print_problems(report.problems)
    print_check(report, Console())
    return int(bad)
