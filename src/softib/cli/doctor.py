"""``softib doctor``: what of this machine can run what."""

from __future__ import annotations

import click

from softib.cli.output import print_json
from softib.foreign_text import shown
from softib.result import document

MARKS = {"ok": "ok     ", "absent": "absent ", "missing": "MISSING"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(as_json: bool) -> int:
    """Say what of this machine can run what, a line each, and what would mend it.

    ``absent`` is one thing less; ``MISSING`` is what softib needs. Exit 1 when something is
    MISSING.
    """
    import softib

    found = softib.doctor()
    if as_json:
        print_json(document("doctor", checks=found))
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            mend = f"; {one.mend}" if one.mend else ""
            click.echo(shown(f"{MARKS[one.state]}  {one.name:{width}}  {one.what}{mend}"))
    return int(any(one.state == "missing" for one in found))
