"""``softib down``: stop a running fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from softib.errors import SoftibError
    from softib.live.instances import Instance


@click.command()
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="Stop every running fabric of this user.")
def command(name: str | None, every: bool) -> int:
    """Stop the running fabric NAME (without NAME: the only one). Programs on it see their next send fail."""
    from softib.live.instances import find, running

    if every and name is not None:
        raise click.UsageError(f"down --all stops every fabric; leave out {name!r}, or --all")
    instances = running() if every else [find(name)]
    if not instances:
        click.echo("softib: no fabric is running", err=True)
    failed = [problem for instance in instances if (problem := _stopped(instance)) is not None]
    for problem in failed[:-1]:
        click.echo(f"softib: {problem}", err=True)
    if failed:
        raise failed[-1]
    return 0


def _stopped(instance: Instance) -> SoftibError | None:
    """Stop one fabric and wait until it is down; returns what went wrong. The others of ``--all`` stop nevertheless."""
    from softib.errors import SoftibError
    from softib.live.control.client import stop

    try:
        stop(instance)
    except SoftibError as problem:
        return problem
    click.echo(f"softib: {instance.name} is down", err=True)
    return None
