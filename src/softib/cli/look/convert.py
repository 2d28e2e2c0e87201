"""``softib convert``: convert between fabric formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import OutputFile
from softib.cli.shared.options import Load, json_option, source_options
from softib.cli.shared.output import print_json, print_notice, print_problems
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import Result

if TYPE_CHECKING:
    from softib import Problem


@dataclass
class Wrote(Result):
    """Numbers of nodes and links in a written file."""

    switches: int
    cas: int
    links: int


@dataclass
class Converted(Result):
    """A converted file."""

    document = "convert"

    dest: str
    read_as: str
    wrote: Wrote
    notes: Sequence[str]
    """Changes needed for the format's readers."""
    problems: Sequence[Problem]


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.argument("dest", type=OutputFile(), required=False)
@click.option("--to", "to", metavar="FORMAT", help="Format to write (default: by the suffix of DEST).")
@click.option(
    "--explain", is_flag=True, help="Show how the headings of SOURCE, a cabling list (CSV or Excel), are read."
)
@click.option(
    "--match",
    "fabric",
    metavar="FABRIC",
    shell_complete=completing.sources,
    help=(
        "If the names in SOURCE, a cabling list, differ from those in FABRIC: derive a node-name-map from the cables, "
        "and write it to DEST."
    ),
)
@json_option
@source_options
def command(
    source: str,
    dest: str | None,
    to: str | None,
    explain: bool,
    fabric: str | None,
    as_json: bool,
    load: Load,
) -> int:
    """Read SOURCE (any known format) and write it to DEST; with --explain, show how a cabling list
    is read.

    Changes that the format requires, and unreadable records of SOURCE, are reported on stderr. Formats to write:
    ibnetdiscover (.ibnetdiscover), ibsim (.net), topo (.topo), lfts (.lft), slurm (topology.conf), slurm-block,
    kubernetes, graphml (.graphml).
    """

    if explain:
        return _explain(source, dest, as_json)
    if fabric is not None:
        return _match(source, dest, fabric)
    if dest is None:
        raise click.UsageError("DEST is missing; add the file to write")
    loaded = load(source)
    notes = loaded.save(dest, to)
    if as_json:
        wrote = Wrote(loaded.switches, loaded.adapters, loaded.cables)
        print_json(Converted(dest, loaded.format, wrote, notes, loaded.problems).to_json())
        return 0
    print_problems(loaded.problems)
    for note in notes:
        print_notice(note)
    click.echo(
        f"{dest}: {counted(loaded.switches, 'switch')}, {counted(loaded.adapters, 'channel adapter')}, "
        f"{counted(loaded.cables, 'cable')} "
        f"(read as {loaded.format}; {counted(len(notes), 'change')}, {counted(len(loaded.problems), 'record')} with "
        f"problems)"
    )
    return 0


def _explain(source: str, dest: str | None, as_json: bool) -> int:
    """Show the meaning of the headings of a cabling list; write its cables to DEST as a
    point-to-point sheet. Return 1 if no row is a cable."""
    import softib

    read = softib.cabling_list(source)
    if dest is not None and read.cables:
        read.save(dest)
    if as_json:
        print_json(read.to_json())
    else:
        print_problems(read.problems)
        click.echo(read.explain())
    return 0 if read.cables else 1


def _match(source: str, dest: str | None, fabric: str) -> int:
    """Propose a node-name-map with the list's names for FABRIC's nodes, which the user must review."""
    import softib

    proposal = softib.cabling_list(source).match(fabric)
    click.echo("\n".join(proposal.lines()))
    if dest is not None:
        proposal.write(dest)
        click.echo(shown(f"{dest}: review it, then run softib check {fabric} --plan {source} --node-name-map {dest}"))
    return 0
