"""``softib shell``: an interactive shell on a node of a running fabric."""

from __future__ import annotations

import os

import click

from softib.cli import completing
from softib.cli.output import print_notice


@click.command()
@click.option(
    "--fabric", metavar="N", shell_complete=completing.fabrics, help="The running fabric (default: the only one)."
)
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=completing.nodes,
    help="Name or GUID of the node (default: the first host with a cable).",
)
@click.option(
    "--no-tuning", is_flag=True, help="Do not set UCX_TLS, OMPI_MCA_pml ... that make libraries use the HCAs."
)
@click.option("--stock-preload", is_flag=True, help="Use libumad2sim.so of ibsim-utils instead of our own library.")
@click.option(
    "--port", type=click.IntRange(0, 254), metavar="P", help="Port of the node (default: its first cabled one)."
)
def command(fabric: str | None, node: str | None, port: int | None, stock_preload: bool, no_tuning: bool) -> int:
    """A shell ($SHELL) in which every program over libibumad sits on NODE; $SOFTIB_PLACE says
    where."""
    import softib

    how = softib.Attachment(stock=stock_preload, tune=not no_tuning)
    shell = os.environ.get("SHELL") or "/bin/sh"
    return softib.RunningFabric(fabric).call(
        (shell,), node=node, port=port, how=how, notice=print_notice, become=click.get_current_context().obj
    )
