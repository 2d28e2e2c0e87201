"""``softib status``: running fabrics and their state."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from softib.cli.shared import completing
from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_json, print_notice
from softib.errors import SoftibError
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import document

if TYPE_CHECKING:
    from softib import FabricStatus, ManagerStatus, RunningFabric


@click.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--prune", is_flag=True, help="Free the memory of killed daemons, then show the fabrics.")
@json_option
def command(name: str | None, prune: bool, as_json: bool) -> int:
    """Show the running fabric NAME, or all of them."""
    import softib

    for left, octets in softib.stale_fabrics(prune) if prune or name is None else []:
        amount = f"{octets / 1e6:.1f} MB"
        what = f"freed {amount}" if prune else f"{amount} of memory are left; 'softib status --prune' frees them"
        click.echo(f"softib: {shown(left)}: its daemon was killed; {what}", err=True)
    fabrics = softib.running_fabrics() if name is None else [softib.RunningFabric(name)]
    statuses, silent = _ask(fabrics)
    if as_json:
        print_json(document("status", fabrics=statuses))
    elif not fabrics:
        click.echo("softib: no fabric is running; start one with 'softib up SOURCE'", err=True)
    else:
        for one in statuses:
            _print(one)
    for problem in silent[:-1]:
        print_notice(str(problem))
    if silent:
        raise silent[-1]
    return 0


def _ask(fabrics: Sequence[RunningFabric]) -> tuple[list[FabricStatus], list[SoftibError]]:
    """Return the states of ``fabrics``, and the errors of those that do not report a state. All are queried at once, so
    that a daemon that does not answer does not delay the others.
    """
    answers: dict[str, FabricStatus] = {}
    errors: dict[str, SoftibError] = {}

    def ask(fabric: RunningFabric) -> None:
        try:
            answers[fabric.name] = fabric.status()
        except SoftibError as error:
            errors[fabric.name] = error

    threads = [threading.Thread(target=ask, args=(fabric,), daemon=True) for fabric in fabrics]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    in_order = [fabric.name for fabric in fabrics]
    return [answers[n] for n in in_order if n in answers], [errors[n] for n in in_order if n in errors]


def _print(one: FabricStatus) -> None:
    ports, sm, mads = one.port_states.to_json(), one.sm, one.mads
    state = "ready" if one.ready else f"not ready ({sm.phase or ''})"
    lines = [
        f"{one.name}: {state}, pid {one.pid}, up {one.uptime_s:.0f} s, from {one.source}",
        f"  {counted(one.switches, 'switch')}, {counted(one.cas, 'CA')}, {counted(one.links, 'cable')}; "
        f"linked ports: " + ", ".join(f"{n} {s}" for s, n in ports.items() if n),
        f"  subnet manager: {sm.kind}"
        + (
            f", {_engine(sm)} on {sm.node}, {sm.state}, {counted(sm.sweeps or 0, 'sweep')}"
            if sm.engine is not None
            else ""
        ),
        f"  MADs: {mads.answered} answered, {mads.forwarded} forwarded, {mads.timed_out} timed out; "
        f"{counted(len(one.clients), 'client')}",
    ]
    if one.kernels not in ("", "both"):
        lines.append(f"  compiled kernels: {one.kernels}; see 'Compiled kernels' in docs/start.md")
    if one.bugs:
        lines.append(f"  met {counted(one.bugs, 'bug')} in softib: please report; tracebacks in {one.log}")
    for c in one.clients:
        lines.append(f"    {c.node}[{c.portnum}]  pid {c.pid}" + ("  subnet manager" if c.sm else ""))
    for line in lines:
        click.echo(shown(line))


def _engine(sm: ManagerStatus) -> str:
    """Return the engine in the manager's settings. If a different engine computed the tables, add its name."""
    used = sm.engine_used or sm.engine
    return f"{sm.engine} (tables by {used})" if used != sm.engine else str(sm.engine)
