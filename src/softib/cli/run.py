"""``softib run``: a program on a node of a running fabric."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import click


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--fabric", metavar="N", help="The running fabric (default: the only one).")
@click.option("--node", metavar="NODE", help="Name or GUID of the node (default: the first host with a cable).")
@click.option(
    "--port", type=click.IntRange(0, 254), metavar="P", help="Port of the node (default: its first cabled one)."
)
@click.option("--stock-preload", is_flag=True, help="Use libumad2sim.so of ibsim-utils instead of our own library.")
@click.option("--pace", is_flag=True, help="What PROGRAM sends takes the wire's time (default: as softib up says).")
@click.option(
    "--strict", is_flag=True, help="Do what hardware may do, and warn of what programs should not: for tests."
)
@click.option(
    "--exclusive", is_flag=True, help="Be alone on NODE: refused where somebody sits there, and others are meanwhile."
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
    refresh: float | None, sysfs: bool, exclusive: bool, program: tuple[str, ...],
) -> int:  # fmt: skip
    """Run PROGRAM attached to NODE: everything over libibumad sees that host's adapters, and nothing else.

    Example: softib run --node host-0001 -- ibnetdiscover
    """
    if sysfs:
        if program:
            raise click.UsageError(
                "--sysfs prints a path and runs nothing; leave the program out, or leave out --sysfs"
            )
        print(f"{_told(fabric, node, port)['env']['SOFTIB_VIEW']}/sys")
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
    return attached(fabric, node, port, program, stock_preload, ns, every_s, exclusive, more)


def _told(fabric: str | None, node: str | None, port: int | None) -> dict[str, Any]:
    from softib.live.remote import ask
    from softib.live.slots import find

    return ask(find(fabric), "attach", node=_named(node), port=port)


def _named(node: str | None) -> str | None:
    """``node``. An empty one (of a shell variable that is not set) is no choice of the first: :class:`InputError`."""
    if node is not None and not node.strip():
        from softib.errors import InputError

        raise InputError("--node is empty; name a node, or leave --node out for the first host")
    return node


def attached(
    fabric: str | None, node: str | None, port: int | None, program: tuple[str, ...], stock: bool = False,
    ns: bool = False, every_s: float | None = None, exclusive: bool = False, more: Mapping[str, str] = MappingProxyType({}),
) -> int:  # fmt: skip
    """Exit code of ``program`` on that port, with ``more`` in its environment. Raises :class:`SoftibError` in one line."""
    from softib.errors import SoftibError
    from softib.live.bereaved import living
    from softib.live.preload import Manner, run_attached
    from softib.live.remote import ask
    from softib.live.seats import seated
    from softib.live.slots import find

    slot = find(fabric)
    alive = living(slot)
    told = ask(slot, "attach", node=_named(node), port=port)
    view = os.path.basename(told["env"]["SOFTIB_VIEW"])

    def refresh() -> None:
        with contextlib.suppress(SoftibError):  # a daemon that is gone leaves what was true last
            ask(slot, "refresh", view=view)

    env = {**told["env"], **more, "SOFTIB_PLACE": told["place"]}
    with seated(slot.folder, told, lambda: ask(slot, "status")["clients"], program[0], exclusive):
        return run_attached(program, env, Manner(stock, ns, every_s, refresh, alive))
