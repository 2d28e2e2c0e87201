"""``softib fault``: break and mend a running fabric."""

from __future__ import annotations

import click

from softib.cli.output import print_json, printable


@click.command()
@click.argument("kind", type=click.Choice(["link-down", "link-up"]))
@click.argument("where", metavar="NODE[PORT]")
@click.option("--fabric", metavar="N", help="The running fabric (default: the only one).")
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(kind: str, where: str, fabric: str | None, as_json: bool) -> int:
    """Take the link at NODE[PORT] down, or let it train again: both ends change, switches send trap 128.

    Example: softib fault link-down 'leaf-3[40]'
    """
    from softib.live.remote import ask
    from softib.live.slots import find

    told = ask(find(fabric), "fault", kind=kind, where=where)
    if as_json:
        print_json(told)
    else:
        click.echo(printable(f"softib: {' – '.join(told['ports'])}: {told['state']}"), err=True)
    return 0
