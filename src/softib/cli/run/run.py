"""``softib run`` and ``softib shell``: a program, or an interactive shell, on a node of a running
fabric."""

from __future__ import annotations

import os

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import OutputFile
from softib.cli.shared.numbers import Number
from softib.cli.shared.options import fabric_option
from softib.cli.shared.output import print_notice


@click.command(context_settings={"allow_interspersed_args": False})
@fabric_option
@click.option(
    "--node",
    metavar="NODE[,NODE...]",
    shell_complete=completing.nodes,
    help=(
        "Name or GUID of the node (default: the first host with a cable; under mpirun, srun, torchrun: rank r on "
        "the r-th host). With several nodes, rank r runs on the r-th."
    ),
)
@click.option(
    "--port", type=click.IntRange(0, 254), metavar="P", help="Port of the node (default: its first cabled one)."
)
@click.option("--stock-preload", is_flag=True, help="Use libumad2sim.so of ibsim-utils instead of softib's library.")
@click.option(
    "--no-tuning", is_flag=True, help="Do not set UCX_TLS, OMPI_MCA_pml ..., which make libraries use the HCAs."
)
@click.option(
    "--pace", is_flag=True, help=("Delay PROGRAM's messages by their time on the wire (default: as for softib up).")
)
@click.option(
    "--strict", is_flag=True, help="For tests: behave in every way that hardware may, and warn of incorrect use."
)
@click.option(
    "--exclusive",
    is_flag=True,
    help="Reserve NODE: fails if another program runs there, and rejects others meanwhile.",
)
@click.option(
    "--record",
    metavar="FILE",
    type=OutputFile(),
    help=(
        "Write PROGRAM's sends, receives and computations as a GOAL schedule (.goal text, .bin binary) for softib "
        "simulate."
    ),
)
@click.option("--net", is_flag=True, help="Run in the network of NODE: only IP over InfiniBand on ib0, ib1 ...")
@click.option("--connected", is_flag=True, help="With --net: IPoIB connected mode, MTU 65520 (default: datagram mode).")
@click.option(
    "--pcap",
    metavar="FILE",
    type=OutputFile(),
    help="With --net: capture the traffic of NODE's interfaces as InfiniBand packets, for Wireshark.",
)
@click.option(
    "--assert-rdma", is_flag=True, help=("If PROGRAM succeeds but verbs moved no data, print why and exit with 3.")
)
@click.option("--ns", is_flag=True, help="Show /sys/class/infiniband in a mount namespace, for static and Go programs.")
@click.option(
    "--refresh",
    type=Number(0.05, 3600),
    metavar="S",
    help="Seconds between refreshes of the tree while PROGRAM runs (default: 1 with --ns, else none).",
)
@click.option("--sysfs", is_flag=True, help="Only print the path of the tree (for options like --path.sysfs).")
@click.argument("program", nargs=-1, shell_complete=completing.files)
def command(
    fabric: str | None,
    node: str | None,
    port: int | None,
    stock_preload: bool,
    pace: bool,
    strict: bool,
    net: bool,
    connected: bool,
    pcap: str | None,
    assert_rdma: bool,
    ns: bool,
    refresh: float | None,
    sysfs: bool,
    exclusive: bool,
    no_tuning: bool,
    record: str | None,
    program: tuple[str, ...],
) -> int:
    """Run PROGRAM attached to NODE: programs on libibumad and libibverbs see only the adapters of
    that host.

    \b
    softib run --node host-0001 -- ibnetdiscover
    mpirun -np 2 softib run -- ./program        # each rank on another host

    UCX, OpenMPI, MPICH and libfabric use the HCAs, unless your environment overrides it.
    """
    import softib

    if sysfs:
        if program:
            raise click.UsageError(
                "--sysfs prints a path and runs nothing; leave the program out, or leave out --sysfs"
            )
        print(softib.RunningFabric(fabric).sysfs(node, port))
        return 0
    if not program:
        raise click.UsageError("no program; use softib run -- CMD …")
    if ns and stock_preload:
        raise click.UsageError("--ns needs softib's library; leave out --stock-preload")
    if stock_preload and (pace or strict or record or assert_rdma):
        raise click.UsageError(
            "--pace, --strict, --record and --assert-rdma need RDMA devices of softib's library; leave out "
            "--stock-preload"
        )
    if pcap is not None and not net:
        raise click.UsageError("--pcap captures the network of a node; add --net")
    if connected and not net:
        raise click.UsageError("--connected applies only to a node's IPoIB network; add --net")
    if net and stock_preload:
        raise click.UsageError("--net needs softib's library; leave out --stock-preload")
    more = {name: "1" for name, on in (("SOFTIB_PACE", pace), ("SOFTIB_STRICT", strict)) if on}
    every_s = 1.0 if ns and refresh is None else refresh
    how = softib.Attachment(
        stock=stock_preload,
        tune=not no_tuning,
        exclusive=exclusive,
        mount=ns,
        refresh_s=every_s,
        net=net,
        connected=connected,
        capture=pcap,
        assert_rdma=assert_rdma,
        environment=more,
        record=record,
    )
    return softib.RunningFabric(fabric).call(
        program, node=node, port=port, how=how, notice=print_notice, become=click.get_current_context().obj
    )


@click.command()
@fabric_option
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=completing.nodes,
    help="Name or GUID of the node (default: the first host with a cable).",
)
@click.option(
    "--no-tuning", is_flag=True, help="Do not set UCX_TLS, OMPI_MCA_pml ..., which make libraries use the HCAs."
)
@click.option("--stock-preload", is_flag=True, help="Use libumad2sim.so of ibsim-utils instead of softib's library.")
@click.option(
    "--port", type=click.IntRange(0, 254), metavar="P", help="Port of the node (default: its first cabled one)."
)
def shell(fabric: str | None, node: str | None, port: int | None, stock_preload: bool, no_tuning: bool) -> int:
    """Start a shell ($SHELL) whose programs on libibumad run on NODE; $SOFTIB_PLACE has its name."""
    import softib

    how = softib.Attachment(stock=stock_preload, tune=not no_tuning, outlives=not stock_preload)
    program = os.environ.get("SHELL") or "/bin/sh"
    return softib.RunningFabric(fabric).call(
        (program,), node=node, port=port, how=how, notice=print_notice, become=click.get_current_context().obj
    )
