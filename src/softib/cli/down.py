"""``softib down``: stop a running fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from softib.cli import completing
from softib.cli.output import print_json, print_notice
from softib.errors import SoftibError
from softib.result import Result

if TYPE_CHECKING:
    from softib import RunningFabric


@dataclass
class NotStopped(Result):
    """A fabric that could not be stopped."""

    name: str
    problem: str
    """Why."""


@dataclass
class Down(Result):
    """Running fabrics that were stopped."""

    document = "down"

    stopped: list[str]
    failed: list[NotStopped]


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
        print_json(Down(stopped, [NotStopped(name, str(problem)) for name, problem in failed.items()]).to_json())
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
