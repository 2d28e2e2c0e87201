"""``softib run``: a program on a node of a running fabric."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--fabric", metavar="N", help="The running fabric (default: the only one).")
@click.option("--node", metavar="NODE", help="Name or GUID of the node (default: the first CA).")
@click.option(
    "--port", type=click.IntRange(0, 254), metavar="P", help="Port of the node (default: its first cabled one)."
)
@click.option("--stock-preload", is_flag=True, help="Use libumad2sim.so of ibsim-utils instead of our own library.")
@click.argument("program", nargs=-1, required=True)
def command(
    fabric: str | None, node: str | None, port: int | None, stock_preload: bool, program: tuple[str, ...]
) -> int:
    """Run PROGRAM attached to NODE: everything over libibumad sees that host's adapters, and nothing else.

    Example: softib run --node host-0001 -- ibnetdiscover
    """
    return attached(fabric, node, port, program, stock_preload)


def attached(
    fabric: str | None, node: str | None, port: int | None, program: tuple[str, ...], stock: bool = False
) -> int:
    """Exit code of ``program`` on that port. Raises :class:`SoftibError` in one line."""
    from softib.live.bereaved import living
    from softib.live.preload import run_attached
    from softib.live.remote import ask
    from softib.live.slots import find

    slot = find(fabric)
    alive = living(slot)
    told = ask(slot, "attach", node=node, port=port)
    return run_attached(program, {**told["env"], "SOFTIB_PLACE": told["place"]}, stock, alive)
