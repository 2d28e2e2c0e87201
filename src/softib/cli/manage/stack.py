"""``softib stack``: check drivers, firmware and settings of hosts."""

from __future__ import annotations

import click

from softib.cli.shared.named_files import InputFile
from softib.cli.shared.options import json_option
from softib.cli.shared.output import print_result


@click.command()
@click.argument("sources", nargs=-1, type=InputFile(), metavar="[FOLDER|ARCHIVE]...")
@click.option("--ssh", metavar="HOST", multiple=True, help="Collect from this host over ssh; repeatable.")
@click.option("--matrix", metavar="F", type=InputFile(), help="Additional rows of the support matrix (TOML).")
@click.option("--collector", is_flag=True, help="Print the shell script that creates the archive of a host, and exit.")
@json_option
def command(sources: tuple[str, ...], ssh: tuple[str, ...], matrix: str | None, collector: bool, as_json: bool) -> int:
    """Compare the software stacks of hosts: driver, firmware, kernel, libraries and settings, with each other, with
    their hardware and with a support matrix. Without FOLDER, ARCHIVE and --ssh, it checks this host, in a second.

    Exit 1 for a fault, or if a host does not answer (for use in a scheduler's prolog).

    \b
    softib stack --ssh node1 --ssh node2 --ssh node3
    softib stack --collector | ssh node4 sh > node4.tgz
    softib stack node4.tgz node5.tgz --matrix site.toml
    """
    import softib

    if collector:
        if sources or ssh or matrix or as_json:
            raise click.UsageError("--collector prints a script and takes no other option; remove the others")
        click.echo(softib.stack_collector(), nl=False)
        return 0
    result = softib.stack(sources, ssh=ssh, matrix=matrix)
    print_result(result, as_json)
    return 0 if result.good else 1
