"""``softib sm job``: an aggregation tree for the hosts of a job."""

from __future__ import annotations

import click

from softib.cli import completing
from softib.cli.output import print_json
from softib.foreign_text import shown
from softib.result import document


@click.command()
@click.argument("hosts", nargs=-1, required=True, shell_complete=completing.nodes)
@click.option("--streaming", is_flag=True, help="A tree for large operations.")
@click.option(
    "--fabric", metavar="N", shell_complete=completing.fabrics, help="The running fabric (default: the only one)."
)
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout.")
def command(hosts: tuple[str, ...], streaming: bool, fabric: str | None, as_json: bool) -> int:
    """Give a job on HOSTS the aggregation tree with the fewest jobs: its number, the aggregation
    node of each host, and the one where all ways meet. The manager counts it until its next sweep.
    """
    import softib

    job = softib.RunningFabric(fabric).job(hosts, streaming=streaming)
    if as_json:
        print_json(document("sm-job", **job))
        return 0
    kind = "streaming " if job["streaming"] else ""
    click.echo(shown(f"{kind}tree {job['tree']}; all ways meet in {job['top']}"))
    for host, node in zip(hosts, job["hosts"], strict=True):
        click.echo(shown(f"  {host}: {node}"))
    return 0
