"""``softib run``: a program on a node of a running fabric."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from softib.live.instances import Instance


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--fabric", metavar="N", help="The running fabric (default: the only one).")
@click.option(
    "--node", metavar="NODE[,NODE...]",
    help="Name or GUID of the node (default: the first host with a cable; under mpirun, srun, torchrun: rank r on the r-th). "
    "Of several, rank r sits on the r-th.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 254), metavar="P", help="Port of the node (default: its first cabled one)."
)
@click.option("--stock-preload", is_flag=True, help="Use libumad2sim.so of ibsim-utils instead of our own library.")
@click.option(
    "--no-tuning", is_flag=True, help="Do not set UCX_TLS, OMPI_MCA_pml ... that make libraries use the HCAs."
)
@click.option("--pace", is_flag=True, help="What PROGRAM sends takes the wire's time (default: as softib up says).")
@click.option(
    "--strict", is_flag=True, help="Do what hardware may do, and warn of what programs should not: for tests."
)
@click.option(
    "--exclusive",
    is_flag=True,
    help="Be alone on NODE: refused while another program runs there, and refuses others meanwhile.",
)
@click.option("--ns", is_flag=True, help="Show /sys/class/infiniband in a mount namespace, for static and Go programs.")
@click.option(
    "--refresh", type=click.FloatRange(0.05, 3600), metavar="S",
    help="Seconds between refreshes of the tree while PROGRAM runs (default: 1 with --ns, else none).",
)  # fmt: skip
@click.option(
    "--sysfs", is_flag=True, help="Print the path of the tree (for options like --path.sysfs) and do nothing else."
)
@click.argument("program", nargs=-1)
def command(
    fabric: str | None, node: str | None, port: int | None, stock_preload: bool, pace: bool, strict: bool, ns: bool,
    refresh: float | None, sysfs: bool, exclusive: bool, no_tuning: bool, program: tuple[str, ...],
) -> int:  # fmt: skip
    """Run PROGRAM attached to NODE: everything over libibumad and libibverbs sees that host's adapters, and nothing else.

    \b
    softib run --node host-0001 -- ibnetdiscover
    mpirun -np 2 softib run -- ./program        # each rank on a host of its own

    UCX, OpenMPI, MPICH and libfabric use the HCAs, unless your environment says otherwise.
    """
    if sysfs:
        if program:
            raise click.UsageError(
                "--sysfs prints a path and runs nothing; leave the program out, or leave out --sysfs"
            )
        print(f"{_attachment(fabric, node, port)['env']['SOFTIB_VIEW']}/sys")
        return 0
    if not program:
        raise click.UsageError("no program; say softib run -- CMD …")
    if ns and stock_preload:
        raise click.UsageError("--ns goes with our own library; leave out --stock-preload")
    if stock_preload and (pace or strict):
        raise click.UsageError(
            "--pace and --strict are about RDMA devices of our own library; leave out --stock-preload"
        )
    more = {name: "1" for name, on in (("SOFTIB_PACE", pace), ("SOFTIB_STRICT", strict)) if on}
    every_s = 1.0 if ns and refresh is None else refresh
    return attached(fabric, node, port, program, stock_preload, ns, every_s, exclusive, more,
                    not no_tuning)  # fmt: skip


def _attachment(fabric: str | None, node: str | None, port: int | None) -> dict[str, Any]:
    from softib.live.instances import find

    return _ask(find(fabric), node, port)


def _ask(instance: Instance, node: str | None, port: int | None) -> dict[str, Any]:
    """Where this program sits. An empty ``node`` (of a shell variable that is not set) is no choice of the first:
    :class:`InputError`."""
    from softib.live.control.client import ask
    from softib.live.launch.ranks import job_of

    if node is not None and not node.strip():
        from softib.errors import InputError

        raise InputError("--node is empty; name a node, or leave --node out for the first host")
    job = job_of(os.environ)
    return ask(instance, "attach", node=node, port=port, rank=None if job is None else job.rank)


def attached(
    fabric: str | None, node: str | None, port: int | None, program: tuple[str, ...], stock: bool = False,
    ns: bool = False, every_s: float | None = None, exclusive: bool = False, more: Mapping[str, str] = MappingProxyType({}),
    tune: bool = True,
) -> int:  # fmt: skip
    """Exit code of ``program`` on that port, with ``more`` in its environment. Raises :class:`SoftibError` in one line."""
    from softib.errors import SoftibError
    from softib.live.control.client import ask
    from softib.live.instances import find
    from softib.live.launch.child_watchdog import living
    from softib.live.launch.port_locks import port_locks
    from softib.live.launch.preload import Manner, find_program, run_attached
    from softib.live.launch.silent_hcas import Watch, communicates
    from softib.live.launch.tuning import tuned

    instance = find(fabric)
    alive = living(instance)
    path = find_program(program[0])
    attachment = _ask(instance, node, port)
    folder = Path(attachment["env"]["SOFTIB_VIEW"])

    def refresh() -> None:
        with contextlib.suppress(SoftibError):  # without the daemon the last state stays
            ask(instance, "refresh", view=folder.name)

    env = {**attachment["env"], **more, "SOFTIB_PLACE": attachment["place"]}
    if tune and not stock:
        env |= tuned(folder, os.environ)
    watch = Watch(folder, refresh) if not stock and communicates(Path(path), program, os.environ) else None
    if watch is not None:
        watch.begin()
    with port_locks(instance.folder, attachment, lambda: ask(instance, "status")["clients"], program[0], exclusive):
        code = run_attached(path, program, env, Manner(stock, ns, every_s, refresh, alive))
    if watch is not None and code == 0 and alive():
        line = watch.line(attachment["place"], tune, os.environ)
        if line is not None:
            click.echo(f"softib: {line}", err=True)
    return code
