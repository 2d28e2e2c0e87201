"""``softib sm explain``: why packets take the path they take."""

from __future__ import annotations

import click

from softib.cli import completing
from softib.cli.output import print_json, print_lines
from softib.result import document


@click.command()
@click.argument("a", shell_complete=completing.nodes)
@click.argument("b", shell_complete=completing.nodes)
@click.option(
    "--fabric", metavar="N", shell_complete=completing.fabrics, help="The running fabric (default: the only one)."
)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(a: str, b: str, fabric: str | None, as_json: bool) -> int:
    """Why packets from node A to node B take the path they take: the forwarding tables hop by hop,
    SL and VLs, what else was possible, and what would change it. A port is host-1[2], host-1:2 or
    host-1/2. Exit 1 where no path leads there.
    """
    import softib

    found = softib.RunningFabric(fabric).explain(a, b)
    if as_json:
        print_json(document("sm-explain", found))
    else:
        print_lines(found.lines())
    return 1 if found.ended else 0
