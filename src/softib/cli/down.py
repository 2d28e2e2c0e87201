"""``softib down``: stop a running fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli import completing
from softib.cli.output import print_notice
from softib.errors import SoftibError

if TYPE_CHECKING:
    from softib import RunningFabric


@click.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--all", "every", is_flag=True, help="Stop every running fabric of this user.")
def command(name: str | None, every: bool) -> int:
    """Stop the running fabric NAME (without NAME: the only one). Programs on it see their next send fail."""
    import softib

    if every and name is not None:
        raise click.UsageError(f"down --all stops every fabric; leave out {name!r}, or --all")
    fabrics = softib.running_fabrics() if every else [softib.RunningFabric(name)]
    if not fabrics:
        print_notice("no fabric is running")
    failed = [problem for fabric in fabrics if (problem := _stopped(fabric)) is not None]
    for problem in failed[:-1]:
        print_notice(str(problem))
    if failed:
        raise failed[-1]
    return 0


def _stopped(fabric: RunningFabric) -> SoftibError | None:
    """Stop one fabric and wait until it is down; returns what went wrong. The others of ``--all`` stop nevertheless."""
    try:
        fabric.down()
    except SoftibError as problem:
        return problem
    print_notice(f"{fabric.name} is down")
    return None
