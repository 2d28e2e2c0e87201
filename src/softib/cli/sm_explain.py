"""``softib sm explain``: why packets take the path they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli import completing
from softib.cli.output import print_document
from softib.foreign_text import shown

if TYPE_CHECKING:
    from softib import Explanation


@click.command()
@click.argument("a", shell_complete=completing.nodes)
@click.argument("b", shell_complete=completing.nodes)
@click.option(
    "--fabric", metavar="N", shell_complete=completing.fabrics, help="The running fabric (default: the only one)."
)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(a: str, b: str, fabric: str | None, as_json: bool) -> int:
    """Why packets from node A to node B take the path they take: the forwarding tables hop by hop, SL and VLs, what else was
    possible, and what would change it. A port of its own is NODE:PORT. Exit 1 where no path leads there.
    """
    import softib

    found = softib.RunningFabric(fabric).explain(a, b)
    if as_json:
        print_document("sm-explain", **found.to_json())
    else:
        _print(found)
    return 1 if found.ended else 0


def _print(found: Explanation) -> None:
    lines = [
        f"{found.a} (LID {found.slid}) to {found.b} (LID {found.dlid}); engine {found.engine}; SL {found.sl} ({found.sl_source})"
    ]
    for hop in found.hops:
        came = "" if hop.in_port is None else f"in {hop.in_port}, "
        lines.append(f"  {hop.node}: {came}out {hop.out_port} -> {hop.to}[{hop.to_port}], VL {hop.vl}")
    lines += [f"  {found.ended}"] if found.ended else []
    lines += ["why", *(f"  {r}" for r in found.reasons)] if found.reasons else []
    lines += ["what would change it", *(f"  {c}" for c in found.changes)] if found.changes else []
    for line in lines:
        click.echo(shown(line))
