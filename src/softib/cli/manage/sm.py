"""``softib sm``: softib's subnet manager, on a umad device or inside a running fabric."""

from __future__ import annotations

import click

from softib.cli.shared import completing
from softib.cli.shared.options import fabric_option, json_option
from softib.cli.shared.output import print_json, print_lines
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import document

RUN = "run softib's subnet manager on a umad device: hardware, softib run, ibsim"
"""Help line of ``run``, whose module loads only when it is called."""


class SmGroup(click.Group):
    """A group whose ``run`` loads when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands, the main one first."""
        return ["run", *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of ``run``."""
        if cmd_name != "run":
            return super().get_command(ctx, cmd_name)
        from softib.cli.manage.sm_run import command as run

        return run

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing the module of ``run``."""
        lines = [(name, c.get_short_help_str(100)) for name, c in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([("run", RUN), *lines])


@click.group(cls=SmGroup)
def command() -> None:
    """Control softib's subnet manager: run it on a umad device (run), or control that of a running fabric (sweep,
    reload, explain)."""


@command.command(
    "check-config", short_help="check how OpenSM and softib read an opensm.conf, torus-2QoS.conf or related file"
)
@click.argument("file", shell_complete=completing.files)
@json_option
def check_config(file: str, as_json: bool) -> int:
    """Check FILE as OpenSM 3.3.23 reads it. List values that OpenSM does not use as written, and how softib's manager
    differs. FILE is an options file (opensm -F), torus-2QoS.conf, partitions.conf, qos-policy.conf, prefix routes, a
    file of GUIDs or a node-name-map, identified by content. Exit 1 if OpenSM does not use all of it.
    """
    import softib

    report = softib.check_config(file)
    if as_json:
        print_json(report.to_json())
        return int(not report.good)
    verdict = "OpenSM 3.3.23 uses it as written" if report.good else "OpenSM 3.3.23 does not use all of it as written"
    click.echo(shown(f"{report.path}: {report.kind}; {verdict}"))
    for title, lines in (("OpenSM", report.opensm), ("softib", report.softib)):
        if lines:
            click.echo(title)
        for line in lines:
            click.echo(shown(f"  {line.removeprefix(f'{report.path}:').strip()}"))
    return int(not report.good)


@command.command("job", short_help="assign an aggregation tree to the hosts of a job")
@click.argument("hosts", nargs=-1, required=True, shell_complete=completing.nodes)
@click.option("--streaming", is_flag=True, help="Assign a tree for large operations (streaming).")
@fabric_option
@json_option
def job(hosts: tuple[str, ...], streaming: bool, fabric: str | None, as_json: bool) -> int:
    """Assign the aggregation tree with the fewest jobs to a job on HOSTS. Print the number of the tree, the aggregation
    node of each host, and the top node. Until the next sweep, the manager counts the job towards the load of its
    tree.
    """
    import softib

    tree = softib.RunningFabric(fabric).job(hosts, streaming=streaming)
    if as_json:
        print_json(document("sm-job", tree))
        return 0
    kind = "streaming " if tree.streaming else ""
    click.echo(shown(f"{kind}tree {tree.tree}; its top is {tree.top}"))
    for host, node in zip(hosts, tree.hosts, strict=True):
        click.echo(shown(f"  {host}: {node}"))
    return 0


@command.command("explain", short_help="explain the path of packets from A to B")
@click.argument("a", shell_complete=completing.nodes)
@click.argument("b", shell_complete=completing.nodes)
@fabric_option
@json_option
def explain(a: str, b: str, fabric: str | None, as_json: bool) -> int:
    """Explain the path of packets from node A to node B: forwarding tables hop by hop, SL and VLs,
    alternatives, and what would change the path. A port is host-1[2], host-1:2 or host-1/2; A and
    B may be LIDs. Exit 1 if there is no path.
    """
    import softib

    explanation = softib.RunningFabric(fabric).explain(a, b)
    if as_json:
        print_json(document("sm-explain", explanation))
    else:
        print_lines(explanation.lines())
    return 1 if explanation.ended else 0


@command.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@json_option
def sweep(name: str | None, as_json: bool) -> int:
    """Make the manager of running fabric NAME sweep the whole subnet, and wait until it is done."""
    return _sweep(name, as_json, reload=False)


@command.command()
@click.argument("name", required=False, shell_complete=completing.fabrics)
@json_option
def reload(name: str | None, as_json: bool) -> int:
    """Make the manager of running fabric NAME read its files (partitions, options) again, as OpenSM does on SIGHUP,
    and sweep."""
    return _sweep(name, as_json, reload=True)


def _sweep(name: str | None, as_json: bool, reload: bool) -> int:
    import softib

    fabric = softib.RunningFabric(name)
    manager = fabric.sweep(reload=reload)
    if as_json:
        print_json(document("sm", manager))
    else:
        for problem in manager.problems or ():
            click.echo(shown(f"softib: {problem}"), err=True)
        click.echo(f"softib: {fabric.name}: {counted(manager.sweeps or 0, 'sweep')}, {manager.state}", err=True)
    return 0
