"""``softib sm``: the internal subnet manager of a running fabric."""

from __future__ import annotations

import time

import click

from softib.cli.output import print_json, printable

PATIENCE_S, LOOK_S = 60.0, 0.02


@click.command()
@click.argument("what", type=click.Choice(["sweep", "reload"]))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(what: str, name: str | None, as_json: bool) -> int:
    """Make the internal manager look at the whole subnet again and wait until it has; ``reload`` reads its files
    (partitions, options) before, as OpenSM does on SIGHUP."""
    from softib.errors import PeerError
    from softib.live.control.client import ask
    from softib.live.instances import find

    instance = find(name)
    before = ask(instance, "sweep", reload=what == "reload")["sweeps"]
    until = time.monotonic() + PATIENCE_S
    while True:
        manager = ask(instance, "status")["sm"]
        if manager["sweeps"] > before and not manager["phase"]:
            break
        if time.monotonic() > until:
            raise PeerError(f"the manager of {instance.name!r} has not finished its sweep after {PATIENCE_S:.0f} s")
        time.sleep(LOOK_S)
    if as_json:
        print_json(manager)
    else:
        for problem in manager["problems"]:
            click.echo(printable(f"softib: {problem}"), err=True)
        click.echo(f"softib: {instance.name}: {manager['sweeps']} sweeps, {manager['state']}", err=True)
    return 0
