"""``softib diff``: what changed between two fabrics."""

from __future__ import annotations

from collections import Counter

import click

from softib.cli.output import print_json, print_notice, print_problems, printable, show_progress, source_options


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
@source_options
def command(a: str, b: str, as_json: bool, ibnl: tuple[str, ...], node_name_map: str | None) -> int:
    """What leads from fabric A to fabric B: nodes, cables, speeds, LIDs. Exit 1 when anything differs."""
    from softib.fabric.diff import diff
    from softib.source import load

    before, after = (
        load(source, ibnl, node_name_map, notice=print_notice, progress=show_progress) for source in (a, b)
    )
    changes = diff(before.fabric, after.fabric)
    problems = [*before.problems, *after.problems]
    if as_json:
        print_json(
            {
                "a": a,
                "b": b,
                "equal": not changes,
                "changes": [c.to_json() for c in changes],
                "problems": [{"file": p.file, "line": p.line, "reason": p.reason} for p in problems],
            }
        )
        return 1 if changes else 0
    print_problems(problems)
    for change in changes:
        click.echo(printable(str(change)))
    kinds = Counter(c.kind for c in changes)
    click.echo(", ".join(f"{n} {kind}" for kind, n in kinds.items()) if kinds else "no difference")
    return 1 if changes else 0
