"""``softib route``: forwarding tables, the proof that they are right, and their quality."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli.guid_files import guid_file_options, write_guid_files
from softib.cli.output import Steps, print_json, print_notice, print_problems, printable, show_progress, source_options

if TYPE_CHECKING:
    from rich.console import Console

    from softib.analysis.routed import Routed
    from softib.fabric.formats.base import ReadResult


@click.command()
@click.argument("source")
@click.option(
    "--engine",
    metavar="E",
    help="Routing engine by OpenSM's name, or a list of them: minhop, updn, dnup, ftree. Default ftree,updn: updn where the fabric is no tree.",
)
@click.option("--lfts", metavar="F", type=click.Path(), help="Judge these forwarding tables (a dump) instead.")
@click.option("--dump", metavar="F", type=click.Path(), help="Write the tables in the form of dump_lfts.")
@click.option(
    "--guid-files", "write_to", metavar="DIR", type=click.Path(),
    help="Write the GUID files with which ftree takes SOURCE, where it does not without, and route with them.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
@source_options
@guid_file_options
def command(
    source: str, engine: str | None, lfts: str | None, dump: str | None, as_json: bool, ibnl: tuple[str, ...],
    node_name_map: str | None, guid_files: dict[str, str | None], write_to: str | None,
) -> int:  # fmt: skip
    """Route SOURCE with an engine, or judge tables from a file.

    Proves that every CA reaches every CA and switch, counts hops, and looks for credit loops (deadlock). Exit 1 when a
    pair has no path or a credit loop can form.
    """
    from softib.analysis import routed as routing
    from softib.render.as_json import routing_json
    from softib.source import load

    routing.check_choice(engine, lfts, guid_files)
    steps = Steps()
    with steps("reading"):
        result = load(source, ibnl, node_name_map, notice=print_notice, progress=show_progress)
    found = routing.routed(result, engine, lfts, steps, guid_files)
    if write_to:
        found = _with_remedy(found, result, write_to, steps)
    if dump:
        from softib.fabric.formats.lft.dump import write_lfts

        write_lfts(found.fabric, found.lft, dump)
    problems = [*result.problems, *found.problems]
    part = found.part
    if as_json:
        rows = [{"file": p.file, "line": p.line, "reason": p.reason} for p in problems]
        print_json({**routing_json(part), "problems": rows})
    else:
        print_problems(problems)
        _print(found)
        if dump:
            click.echo(printable(f"softib: tables written to {dump}"), err=True)
    return 0 if part.good else 1


def _with_remedy(found: Routed, result: ReadResult, folder: str, steps: Steps) -> Routed:
    """Write the files of ftree's remedy, and route with them."""
    from softib.analysis import routed as routing
    from softib.routing.remedy import remedy

    with steps("looking for roots"):
        found_remedy = remedy(found.graph, found.options)
    if found_remedy is None:
        click.echo("softib: no GUID files written: ftree fits without, or no choice of roots makes it fit", err=True)
        return found
    arguments = write_guid_files(found_remedy.options, folder)
    click.echo(
        printable(f"softib: ftree does not fit ({found_remedy.reason}); it does with {' '.join(arguments)}"), err=True
    )
    files = {arguments[i].removeprefix("--"): arguments[i + 1] for i in range(0, len(arguments), 2)}
    return routing.from_engine(result, "ftree", steps, files)


def _print(found: Routed) -> None:
    from rich.console import Console

    from softib.render.terminal import print_routing, text

    console: Console = Console()
    part = found.part
    console.print(text(found.fabric.name or "fabric", "bold"))
    if part.good:
        console.print(text("Every CA reaches every CA and switch, and no credit loop can form.", "green"))
    else:
        loop = "a credit loop can form" + (
            " if all paths use one SL" if found.proof.assumed else ": traffic can deadlock"
        )
        bad = [] if part.deadlock_free else [loop]
        bad += [f"{part.unreachable:,} pairs have no path"] if part.unreachable else []
        console.print(text("; ".join(bad)[0].upper() + "; ".join(bad)[1:] + ".", "bold red"))
    console.print()
    print_routing(part, console)
