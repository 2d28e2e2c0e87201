"""``softib sm``: our subnet manager, on a umad device of its own or inside a running fabric."""

from __future__ import annotations

import importlib

import click

from softib.cli import completing
from softib.cli.output import print_json
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import document

LAZY = {
    "run": "run our subnet manager on a umad device: hardware, softib run, ibsim",
    "check-config": "would OpenSM take this opensm.conf or torus-2QoS.conf, and what softib makes of it",
    "job": "an aggregation tree for the hosts of a job",
    "explain": "why packets from A to B take the path they take",
}
"""Commands whose modules load when they are called: ``softib.cli.sm_<name>:command``."""


class SmGroup(click.Group):
    """Those of :data:`LAZY` load when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them."""
        return [*LAZY, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(f"softib.cli.sm_{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        eager = [(name, c.get_short_help_str(100)) for name, c in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*LAZY.items(), *eager])


@click.group(cls=SmGroup)
def command() -> None:
    """Our subnet manager: on any umad device (run), and inside a running fabric (sweep, reload,
    explain)."""


@command.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def sweep(name: str | None, as_json: bool) -> int:
    """Make the manager of running fabric NAME look at the whole subnet again, and wait until it
    has."""
    return _sweep(name, as_json, reload=False)


@command.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def reload(name: str | None, as_json: bool) -> int:
    """Make it read its files (partitions, options) again, as OpenSM does on SIGHUP, and sweep."""
    return _sweep(name, as_json, reload=True)


def _sweep(name: str | None, as_json: bool, reload: bool) -> int:
    import softib

    fabric = softib.RunningFabric(name)
    manager = fabric.sweep(reload=reload)
    if as_json:
        print_json(document("sm", **manager))
    else:
        for problem in manager["problems"]:
            click.echo(shown(f"softib: {problem}"), err=True)
        click.echo(f"softib: {fabric.name}: {counted(manager['sweeps'], 'sweep')}, {manager['state']}", err=True)
    return 0
