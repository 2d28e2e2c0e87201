"""``softib down``: stop a running fabric."""

from __future__ import annotations

import time

import click

PATIENCE_S = 15.0


@click.command()
@click.argument("name", required=False)
def command(name: str | None) -> int:
    """Stop the running fabric NAME (without NAME: the only one). Programs on it see their next send fail."""
    from softib.errors import PeerError
    from softib.live.remote import ask
    from softib.live.slots import find

    slot = find(name)
    ask(slot, "down", PATIENCE_S)
    until = time.monotonic() + PATIENCE_S
    while slot.held():
        if time.monotonic() > until:
            raise PeerError(f"the daemon of {slot.name!r} was asked to stop and still runs; see 'softib status'")
        time.sleep(0.02)
    click.echo(f"softib: {slot.name} is down", err=True)
    return 0
