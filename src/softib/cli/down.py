"""``softib down``: stop a running fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from softib.cli import completing
from softib.cli.output import print_document, print_notice
from softib.errors import SoftibError

if TYPE_CHECKING:
    from softib import RunningFabric


@click.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--all", "every", is_flag=True, help="Stop every running fabric of this user.")
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(name: str | None, every: bool, as_json: bool) -> int:
    """Stop the running fabric NAME (without NAME: the only one). Programs on it see their next send
    fail."""
    import softib

    if every and name is not None:
        raise click.UsageError(f"down --all stops every fabric; leave out {name!r}, or --all")
    fabrics = softib.running_fabrics() if every else [softib.RunningFabric(name)]
    if not fabrics:
        print_notice("no fabric is running")
    failed = {fabric.name: problem for fabric in fabrics if (problem := _stopped(fabric)) is not None}
    if as_json:
        stopped = [fabric.name for fabric in fabrics if fabric.name not in failed]
        print_document("down", stopped=stopped, failed=[{"name": n, "problem": str(p)} for n, p in failed.items()])
    for problem in list(failed.values())[:-1]:
        print_notice(str(problem))
    if failed:
        raise list(failed.values())[-1]
    return 0


def _stopped(fabric: RunningFabric) -> SoftibError | None:
    """Stop one fabric and wait until it is down; returns what went wrong. The others of ``--all``
    stop nevertheless."""
    try:
        fabric.down()
    except SoftibError as problem:
        return problem
    print_notice(f"{fabric.name} is down")
    return None
