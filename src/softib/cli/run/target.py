"""``softib target``: files as namespaces of an NVMe over Fabrics target."""

from __future__ import annotations

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import OutputFile
from softib.cli.shared.options import json_option
from softib.cli.shared.output import Compiling, print_line, print_notice
from softib.plural import counted


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=completing.files)
@click.option("--nqn", metavar="NQN", help="Name of the subsystem (default: nqn.2026-11.softib:target).")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=4420, show_default=True, metavar="P", help="Port of rdma_cm."
)
@click.option(
    "--ana",
    "states",
    metavar="N=STATE",
    multiple=True,
    help="Asymmetric access state on port N (1, 2, ... as $SOFTIB_ADDRESSES lists them): optimized, non-optimized, "
    "inaccessible, persistent-loss or change; repeatable.",
)
@click.option("--pcap", metavar="FILE", type=OutputFile(), help="Capture capsules and responses as InfiniBand packets.")
@json_option
def command(
    files: tuple[str, ...], nqn: str | None, port: int, states: tuple[str, ...], pcap: str | None, as_json: bool
) -> int:
    """Export FILEs as NVMe namespaces 1, 2, ... on all ports of this node, until Ctrl-C.

    \b
    truncate -s 1G disk.img
    softib run --node host-0001 -- softib target disk.img

    Hosts use softib nvme, or any other NVMe over Fabrics initiator over RDMA.
    """
    import softib

    chosen: dict[int, str] = {}
    for text in states:
        number, equals, state = text.partition("=")
        if not equals or not (number.isascii() and number.isdigit()):
            raise click.UsageError(f"--ana {text}: use N=STATE, for example 2=non-optimized")
        if int(number) in chosen:
            raise click.UsageError(f"--ana {text}: port {number} has a state already; name each port once")
        chosen[int(number)] = state
    softib.on_compiling(Compiling())
    with softib.NvmeTarget(*files, nqn=nqn, port=port, states=chosen, pcap=pcap, notice=print_notice) as target:
        described = target.describe()
        if as_json:
            print_line(described)
        else:
            where = ", ".join(p.address for p in described.ports)
            print_notice(f"{described.nqn}: {counted(len(files), 'namespace')} at {where} port {port}")
        target.serve()
    return 0
