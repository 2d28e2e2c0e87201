"""``softib convert``: from one fabric format to another."""

from __future__ import annotations

import click

from softib.cli import completing
from softib.cli.output import print_document, print_notice, print_problems, problems_of, show_progress, source_options


@click.command()
@click.argument("source", shell_complete=completing.sources)
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
    import softib

    fabric = softib.load(source, ibnl=ibnl, node_name_map=node_name_map, notice=print_notice, progress=show_progress)
    notes = fabric.save(dest, to)
    if as_json:
        wrote = {"switches": fabric.switches, "cas": fabric.hosts, "links": fabric.cables}
        print_document("convert", dest=dest, read_as=fabric.format, wrote=wrote, notes=notes,
                       problems=problems_of(fabric.problems))  # fmt: skip
        return 0
    print_problems(fabric.problems)
    for note in notes:
        print_notice(note)
    click.echo(
        f"{dest}: {fabric.switches} switches, {fabric.hosts} channel adapters, {fabric.cables} cables "
        f"(read as {fabric.format}; {_count(len(notes), 'change')}, {_count(len(fabric.problems), 'record')} with problems)"
    )
    return 0


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
