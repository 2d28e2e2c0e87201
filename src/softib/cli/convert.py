"""``softib convert``: from one fabric format to another."""

from __future__ import annotations

import click

from softib.cli.output import print_json, print_notice, print_problems, printable, show_progress, source_options


@click.command()
@click.argument("source")
@click.argument("dest", type=click.Path())
@click.option("--to", "to", metavar="FORMAT", help="Format to write; without it the suffix of DEST says it.")
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
@source_options
def command(
    source: str, dest: str, to: str | None, as_json: bool, ibnl: tuple[str, ...], node_name_map: str | None
) -> int:
    """Read SOURCE (any known format) and write it to DEST.

    What the writer had to change so that its readers can load the file, and records of SOURCE that could not be read,
    are named on stderr. Formats to write: ibnetdiscover (.ibnetdiscover), ibsim (.net), topo (.topo), lfts (.lft),
    slurm (topology.conf), graphml (.graphml).
    """
    from softib.fabric.formats import registry
    from softib.source import load

    result = load(source, ibnl, node_name_map, notice=print_notice, progress=show_progress)
    notes = registry.write(result.fabric, dest, to)
    size = result.fabric.sizes
    if as_json:
        problems = [{"file": p.file, "line": p.line, "reason": p.reason} for p in result.problems]
        wrote = {"switches": size.switches, "cas": size.nodes - size.switches, "links": size.cables}
        print_json({"dest": dest, "read_as": result.format, "wrote": wrote, "notes": notes, "problems": problems})
        return 0
    print_problems(result.problems)
    for note in notes:
        click.echo(printable(f"softib: {note}"), err=True)
    click.echo(
        f"{dest}: {size.switches} switches, {size.nodes - size.switches} channel adapters, {size.cables} cables "
        f"(read as {result.format}; {len(notes)} changes, {len(result.problems)} records with problems)"
    )
    return 0
