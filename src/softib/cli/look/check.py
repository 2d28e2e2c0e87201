"""``softib check``: findings only, and an exit code that scripts can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, OutputFile
from softib.cli.shared.options import Load, guid_file_options, plan_option, source_options, table_options
from softib.cli.shared.output import Steps, print_json, print_notice, print_problems
from softib.plural import counted

if TYPE_CHECKING:
    from softib import Fabric, Findings

FORMATS = ("text", "json", "csv", "sarif", "junit")
SEVERITIES = ("info", "warning", "error")
UNJUDGED = {"temperatures": "temperatures of chips (no file states their limits)"}
"""Recorded data that no rule checks: a record of :class:`~softib.fabric.model.Source` → its name in
messages."""


@click.command()
@click.argument("source", shell_complete=completing.sources)
@plan_option
@click.option(
    "--all", "every", is_flag=True, help="Show every finding (default: many findings of one kind are summarised)."
)
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="info",
    show_default=True,
    help="Minimum severity of the findings that are shown and that determine the exit code.",
)
@click.option("--ignore", "ignored", multiple=True, metavar="CODE", help="Omit findings with this code (repeatable).")
@click.option(
    "--baseline",
    metavar="F",
    type=InputFile(made_by="softib check --write-baseline"),
    help="Omit the findings in this file, written by --write-baseline.",
)
@click.option(
    "--write-baseline",
    metavar="F",
    type=OutputFile(),
    help="Write the current findings to this file, for --baseline, and exit 0.",
)
@click.option(
    "--jobs",
    "jobs_file",
    metavar="F",
    type=InputFile(),
    help=(
        "Name the jobs whose traffic crosses each finding, and the links that jobs share. FILE is the output of squeue "
        "--json, scontrol show job --json or kubectl get pods -o json, or YAML."
    ),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Output format of findings: csv for tables, SARIF 2.1.0, JUnit XML for CI servers.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout: --format json.")
@source_options
@guid_file_options
@table_options
def command(
    source: str,
    plans: tuple[str, ...],
    every: bool,
    severity: str,
    ignored: tuple[str, ...],
    baseline: str | None,
    write_baseline: str | None,
    jobs_file: str | None,
    form: str,
    as_json: bool,
    engine: str | None,
    lfts: str | None,
    load: Load,
    guid_files: dict[str, str | None],
) -> int:
    """Check SOURCE ("-": stdin) and print the findings.

    Exit 1 if a shown finding has severity warning or error, for example an unreadable record; with
    information only, exit 0.
    """
    import softib

    if as_json and form not in ("text", "json"):
        raise click.UsageError(f"--json and --format {form}: use one of the two")
    steps = Steps()
    fabric = load(source, steps)
    jobs = None if jobs_file is None else softib.jobs_on(fabric, jobs_file, steps=steps)
    findings = softib.check(
        fabric,
        plan=plans,
        engine=engine,
        lfts=lfts,
        guid_files=guid_files,
        severity=severity,
        ignore=ignored,
        baseline=baseline,
        jobs=jobs,
        steps=steps,
    )
    _print_unjudged(source, fabric)
    if write_baseline is not None:
        findings.save_baseline(write_baseline)
        n = len(findings)
        print_notice(f"{counted(n, 'finding')} written to {write_baseline} as known")
        return 0
    _print(findings, "json" if as_json else form, every)
    if jobs is not None and form == "text" and not as_json:
        for line in jobs.lines():
            click.echo(line)
    return 0 if findings.good else 1


def _print_unjudged(source: str, fabric: Fabric) -> None:
    """Print one line about recorded data of SOURCE that no rule checks, so that users do not assume that it is good."""
    if texts := [text for record, text in UNJUDGED.items() if record in fabric.arrays.source.records]:
        print_notice(f"{source}: read, but not checked: {', '.join(texts)}")


def _print(findings: Findings, form: str, every: bool) -> None:
    if form == "json":
        print_json(findings.to_json())
        return
    print_problems(p for p in findings.problems if not p.code)  # problems with a code are findings
    if form == "text":
        findings.print(every)
        return
    for note in findings.notes:
        print_notice(note)
    writers = {"csv": findings.to_csv, "sarif": findings.to_sarif, "junit": findings.to_junit}
    click.echo(writers[form](), nl=False)
