"""``softib sm``: the internal subnet manager of a running fabric."""

from __future__ import annotations

import click

from softib.cli import completing
from softib.cli.output import print_document, printable


@click.command()
@click.argument("what", type=click.Choice(["sweep", "reload"]))
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(what: str, name: str | None, as_json: bool) -> int:
    """Make the internal manager look at the whole subnet again and wait until it has; ``reload`` reads its files
    (partitions, options) before, as OpenSM does on SIGHUP."""
    import softib

    fabric = softib.RunningFabric(name)
    manager = fabric.sweep(reload=what == "reload")
    if as_json:
        print_document("sm", **manager)
    else:
        for problem in manager["problems"]:
            click.echo(printable(f"softib: {problem}"), err=True)
        click.echo(f"softib: {fabric.name}: {manager['sweeps']} sweeps, {manager['state']}", err=True)
    return 0
