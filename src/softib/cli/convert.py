"""``softib convert``: from one fabric format to another."""

from __future__ import annotations

import click

from softib.cli.output import print_problems, printable, source_options


@click.command()
@click.argument("source")
@click.argument("dest", type=click.Path())
@click.option("--to", "to", metavar="FORMAT", help="Format to write; without it the suffix of DEST says it.")
@source_options
def command(source: str, dest: str, to: str | None, ibnl: tuple[str, ...], node_name_map: str | None) -> int:
    """Read SOURCE (any known format) and write it to DEST.

    What the writer had to change so that its readers can load the file, and records of SOURCE that could not be read,
    are named on stderr. Formats to write: ibnetdiscover (.ibnetdiscover), ibsim (.net), topo (.topo), lfts (.lft),
    slurm (topology.conf), graphml (.graphml).
    """
    from softib.cli.source import load
    from softib.fabric.formats import registry

    result = load(source, ibnl, node_name_map)
    print_problems(result.problems)
    notes = registry.write(result.fabric, dest, to)
    for note in notes:
        click.echo(printable(f"softib: {note}"), err=True)
    size = result.fabric.sizes
    click.echo(
        f"{dest}: {size.switches} switches, {size.nodes - size.switches} channel adapters, {size.cables} cables "
        f"(read as {result.format}; {len(notes)} changes, {len(result.problems)} records with problems)"
    )
    return 0
