"""``softib diff``: changes between two fabrics."""

from __future__ import annotations

from collections import Counter

import click

from softib.cli.shared import completing
from softib.cli.shared.options import Load, json_option, source_options
from softib.cli.shared.output import print_json, print_problems
from softib.foreign_text import shown


@click.command()
@click.argument("a", shell_complete=completing.sources)
@click.argument("b", shell_complete=completing.sources)
@json_option
@source_options
def command(a: str, b: str, as_json: bool, load: Load) -> int:
    """Show the changes from fabric A to fabric B: nodes, cables, speeds, LIDs. Exit 1 if there are any. Nodes are
    matched by NodeGUID, otherwise by name; if the GUID and the name match different nodes, the cables decide."""
    import softib

    before, after = load(a), load(b)
    changes = softib.diff(before, after)
    if as_json:
        print_json(changes.to_json())
        return 1 if changes else 0
    print_problems([*before.problems, *after.problems])
    for line in changes.lines():
        click.echo(shown(line))
    kinds = Counter(c.kind for c in changes)
    click.echo(", ".join(f"{n} {kind}" for kind, n in kinds.items()) if kinds else "no difference")
    return 1 if changes else 0
