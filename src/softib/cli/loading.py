"""What verbs read: SOURCE with what its reader needs, and the forwarding tables that are judged."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click

from softib.cli.output import Steps, print_notice, show_progress

if TYPE_CHECKING:
    from softib import Fabric, Routing

__all__ = ["Load", "checked_engines", "routing_of", "source_options", "table_options"]

F = TypeVar("F", bound=Callable[..., Any])


class Load(Protocol):
    """Reads a SOURCE with the options that stand beside it."""

    def __call__(self, source: str, steps: Steps | None = None) -> Fabric:
        """The fabric; notices and progress go to stderr."""


def source_options(function: F) -> F:
    """``--ibnl`` and ``--node-name-map``: what a reader may need in addition to the file. The verb
    gets ``load``, a :class:`Load`."""

    @wraps(function)
    def with_load(*args: Any, ibnl: tuple[str, ...], node_name_map: str | None, **options: Any) -> Any:
        def load(source: str, steps: Steps | None = None) -> Fabric:
            import softib

            more = {} if steps is None else {"steps": steps}
            return softib.load(
                source, ibnl=ibnl, node_name_map=node_name_map, notice=print_notice, progress=show_progress, **more
            )

        return function(*args, load=load, **options)

    with_ibnl = click.option(
        "--ibnl",
        multiple=True,
        metavar="DIR",
        type=click.Path(),
        help="Directory of IBNL system descriptions for .topo files (repeatable).",
    )(with_load)
    return click.option(
        "--node-name-map", metavar="F", type=click.Path(), help="Names of nodes by GUID, as infiniband-diags read them."
    )(cast("F", with_ibnl))


def routing_of(
    fabric: Fabric, engine: str | None, lfts: str | None, guid_files: dict[str, str | None], steps: Steps
) -> Routing:
    """The tables of a dump (``lfts``), or those that ``engine`` makes."""
    import softib

    if lfts is not None:
        return softib.verify(fabric, lfts, steps=steps)
    return softib.route(fabric, engine, guid_files=guid_files, steps=steps)


def table_options(function: F) -> F:
    """``--engine`` and ``--lfts``: which forwarding tables a verb judges. Raises a usage error for
    both, and for GUID files with ``--lfts``."""
    from softib.cli import completing

    @wraps(function)
    def one_choice(*args: Any, engine: str | None, lfts: str | None, **options: Any) -> Any:
        if lfts is not None and engine is not None:
            raise click.UsageError("--engine computes tables and --lfts reads them; give one of the two")
        if lfts is not None and any(v is not None for v in options.get("guid_files", {}).values()):
            raise click.UsageError(
                "GUID files are for an engine, and --lfts reads tables that are there; give one of the two"
            )
        return function(*args, engine=engine, lfts=lfts, **options)

    with_lfts = click.option(
        "--lfts", metavar="F", type=click.Path(), help="Use these forwarding tables (a dump) instead."
    )(one_choice)
    return click.option(
        "--engine",
        metavar="E",
        callback=checked_engines,
        shell_complete=completing.engines,
        help="Routing engine by OpenSM's name, or a list of them: minhop, updn, dnup, ftree, dor, lash, sssp, "
        "dfsssp, nue, "
        "torus-2QoS, file, chain. Default ftree,updn,dfsssp,lash: updn where the fabric is no tree, lanes where "
        "they pay.",
    )(cast("F", with_lfts))


def checked_engines(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Routing engines that exist, before any work. Raises :class:`UnknownName`."""
    import softib

    if value is not None and not context.resilient_parsing:
        softib.engines(value)
    return value
