"""Options that several subcommands have: for reading SOURCE, for forwarding tables, for OpenSM's input files of routing
engines, and for the settings of softib's subnet manager.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile, InputFolder
from softib.cli.shared.output import Steps, print_notice, show_progress

if TYPE_CHECKING:
    from softib import Fabric, Routing

__all__ = [
    "Load",
    "all_option",
    "checked_engines",
    "engine_option",
    "every_option",
    "fabric_option",
    "given_settings",
    "guid_file_options",
    "json_option",
    "manager_options",
    "mkey_option",
    "plan_option",
    "rounds_option",
    "routing_of",
    "seed_option",
    "source_options",
    "table_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def checked_engines(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return ``value`` after a check, before any work is done, that the routing engines exist. Raises
    :class:`UnknownName`."""
    import softib

    if value is not None and not context.resilient_parsing:
        softib.engines(value)
    return value


def _key(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """Return a key of 64 bits from its decimal or hexadecimal (0x…) text. Raises a usage error for other text."""
    try:
        key = int(value, 0)
    except ValueError:
        key = -1
    if not 0 <= key < 1 << 64:
        raise click.UsageError(f"--mkey (SOFTIB_MKEY) {value}: use a number of 64 bits, for example 0x1122334455667788")
    return key


mkey_option = click.option(
    "--mkey",
    metavar="KEY",
    default="0",
    callback=_key,
    envvar="SOFTIB_MKEY",
    show_envvar=True,
    help="Send requests like the manager, with its M_Key; default: like a host without one.",
)
rounds_option = click.option(
    "--rounds",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="Readings of a running fabric or umad:DEVICE.",
)
every_option = click.option(
    "--every", type=click.FloatRange(0.1), default=10.0, show_default=True, metavar="SECONDS", help="Between readings."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
fabric_option = click.option(
    "--fabric", metavar="N", shell_complete=completing.fabrics, help="The running fabric (default: the only one)."
)
plan_option = click.option(
    "--plan",
    "plans",
    metavar="F",
    type=InputFile(),
    multiple=True,
    help="Compare every cable with this plan (a cabling list, a fabric.yaml, or any fabric file). Several lists "
    "(--plan A --plan B) make one plan.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of random draws."
)
all_option = click.option("--all", "every_finding", is_flag=True, help="All findings, without shortening.")
engine_option = click.option(
    "--engine",
    metavar="E",
    callback=checked_engines,
    shell_complete=completing.engines,
    help="Routing engine by OpenSM's name, or a list of them: minhop, updn, dnup, ftree, dor, lash, sssp, "
    "dfsssp, nue, torus-2QoS, file, chain. Default ftree,updn,dfsssp,lash: updn if the fabric is not a tree, "
    "virtual lanes if they improve bandwidth.",
)
lfts_option = click.option(
    "--lfts", metavar="F", type=InputFile(), help="Use these forwarding tables (a dump) instead."
)
SOURCE_OPTIONS = (
    click.option(
        "--node-name-map",
        metavar="F",
        type=InputFile(),
        help=("Names of nodes by GUID, in the format of infiniband-diags."),
    ),
    click.option(
        "--ibnl",
        multiple=True,
        metavar="DIR",
        type=InputFolder(),
        help="Directory of IBNL system descriptions for .topo files (repeatable).",
    ),
)
ENGINE_FILES = (
    click.option(
        "--root_guid_file",
        "-a",
        metavar="F",
        type=InputFile(),
        help="A file of NodeGUIDs of the top switches (updn, dnup, ftree): with them ftree fits an irregular tree.",
    ),
    click.option(
        "--cn_guid_file",
        "-u",
        metavar="F",
        type=InputFile(),
        help="A file of PortGUIDs of the compute nodes (ftree); all other ports are not.",
    ),
    click.option(
        "--io_guid_file",
        "-G",
        metavar="F",
        type=InputFile(),
        help="A file of PortGUIDs of I/O nodes (ftree), which may be anywhere in the tree.",
    ),
    click.option("--torus_config", metavar="F", type=InputFile(), help="torus-2QoS.conf of engine torus-2QoS."),
    click.option(
        "--lfts_file",
        "-U",
        metavar="F",
        type=InputFile(),
        help="Forwarding tables for engine file, in the format of dump_lfts.",
    ),
    click.option("--pgrp_policy_file", metavar="F", type=InputFile(), help="Port groups of engine chain."),
    click.option("--topo_policy_file", metavar="F", type=InputFile(), help="Parts of the fabric for engine chain."),
    click.option(
        "--rch_policy_file",
        metavar="F",
        type=InputFile(),
        help="Steps of engine chain: an engine for each part.",
    ),
    click.option(
        "--nue_max_num_vls",
        type=click.IntRange(0, 15),
        metavar="N",
        help="VLs that nue uses; 0: as many as it needs (default: 1).",
    ),
)
MANAGER_OPTIONS = (
    click.option(
        "--engine",
        metavar="E",
        help=(
            "Routing engine of softib's manager or a list of them: minhop, updn, dnup, ftree, dor, lash, sssp, dfsssp, "
            "nue, torus-2QoS, file, chain (default: from the file, otherwise ftree,updn,dfsssp,lash, as in report "
            "and check)."
        ),
    ),
    click.option("--lmc", type=click.IntRange(0, 7), help="LMC of softib's manager (default: from the file)."),
    click.option(
        "--partitions",
        "--Pconfig",
        metavar="FILE",
        type=InputFile(),
        help="Partitions of softib's manager, in the format of OpenSM's partitions.conf.",
    ),
    click.option(
        "--sm-config", metavar="FILE", type=InputFile(), help="OpenSM's options file (opensm -c) for softib's manager."
    ),
    click.option(
        "--sweep",
        type=click.IntRange(0, 10**6),
        metavar="S",
        help="Seconds between the manager's sweeps of the switches; 0: only after traps (default: 10).",
    ),
    click.option(
        "--priority", type=click.IntRange(0, 15), help="Priority of the manager among subnet managers (default: 0)."
    ),
    click.option(
        "--reassign-lids",
        is_flag=True,
        help="Ignore the LIDs of ports in the file, or of an earlier run of this fabric.",
    ),
)


def _decorated(function: F, options: Sequence[Callable[[F], F]]) -> F:
    """Return ``function`` with ``options``, the first one at the top of its help."""
    for option in reversed(options):
        function = option(function)
    return function


def _gathered(keyword: str, options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Return a decorator that adds ``options`` to a subcommand. The subcommand receives their values by name in one
    mapping, the argument ``keyword``.
    """

    def decorated(function: F) -> F:
        @wraps(function)
        def with_group(*args: Any, **given: Any) -> Any:
            return function(*args, **{keyword: {name: given.pop(name) for name in names}}, **given)

        params = with_group.__dict__["__click_params__"] = list(getattr(function, "__click_params__", ()))
        before = len(params)
        _decorated(with_group, options)
        names = [param.name for param in params[before:]]
        return with_group  # type: ignore[return-value]

    return decorated


guid_file_options = _gathered("guid_files", ENGINE_FILES)
"""OpenSM's options for routing engines: GUID files, torus-2QoS.conf, the tables of engine ``file``, the VLs of
``nue``."""
manager_options = _gathered("manager", (*MANAGER_OPTIONS, *ENGINE_FILES))
"""Settings of softib's subnet manager, for :func:`given_settings`."""


class GivenSettings(NamedTuple):
    """Settings of a manager from the command line, as arguments of the library."""

    manager: dict[str, Any]
    sm_config: str | None
    """Path of a file of OpenSM's options."""
    partitions: str | None
    """Path of a partitions file."""


def given_settings(manager: dict[str, Any]) -> GivenSettings:
    """Return the settings that the options in ``manager`` give."""
    sweep = manager["sweep"]
    fields = {
        "engine": manager["engine"],
        "lmc": manager["lmc"],
        "priority": manager["priority"],
        "reassign_lids": manager["reassign_lids"] or None,
        "sweep_interval_ps": None if sweep is None else sweep * 10**12,
        **{
            k: v and os.path.abspath(v)
            for k, v in manager.items()
            if k.endswith(("_guid_file", "torus_config", "lfts_file", "_policy_file"))
        },
        "nue_max_num_vls": manager["nue_max_num_vls"],
    }
    given = {k: v for k, v in fields.items() if v is not None}
    return GivenSettings(given, manager["sm_config"], manager["partitions"])


class Load(Protocol):
    """Reader of a SOURCE with its options on the command line."""

    def __call__(self, source: str, steps: Steps | None = None) -> Fabric:
        """Return the fabric, which is read when it is first used. Notices and progress go to stderr."""


def source_options(function: F) -> F:
    """Add the options of the reader of SOURCE to a subcommand. The subcommand receives ``load``, a :class:`Load`."""

    @wraps(function)
    def with_load(*args: Any, ibnl: tuple[str, ...], node_name_map: str | None, **options: Any) -> Any:
        def load(source: str, steps: Steps | None = None) -> Fabric:
            import softib

            arguments = {} if steps is None else {"steps": steps}
            return softib.load(
                source,
                ibnl=ibnl,
                node_name_map=node_name_map,
                notice=print_notice,
                progress=show_progress,
                later=True,
                **arguments,
            )

        return function(*args, load=load, **options)

    return _decorated(with_load, SOURCE_OPTIONS)  # type: ignore[return-value]


def routing_of(
    fabric: Fabric, engine: str | None, lfts: str | None, guid_files: dict[str, str | None], steps: Steps
) -> Routing:
    """Return the forwarding tables in a dump (``lfts``), or those that ``engine`` computes."""
    import softib

    if lfts is not None:
        return softib.verify(fabric, lfts, steps=steps)
    return softib.route(fabric, engine, guid_files=guid_files, steps=steps)


def table_options(function: F) -> F:
    """Add ``--engine`` and ``--lfts``, which select the forwarding tables that a subcommand judges. Using both, or GUID
    files with ``--lfts``, is a usage error.
    """

    @wraps(function)
    def one_choice(*args: Any, engine: str | None, lfts: str | None, **options: Any) -> Any:
        if lfts is not None and engine is not None:
            raise click.UsageError("--engine computes tables and --lfts reads them; use one of the two")
        if lfts is not None and any(v is not None for v in options.get("guid_files", {}).values()):
            raise click.UsageError("GUID files are for an engine, and --lfts reads existing tables; use one of the two")
        return function(*args, engine=engine, lfts=lfts, **options)

    tables = click.option("--lfts", metavar="F", type=InputFile(), help="Use these forwarding tables (a dump) instead.")
    return _decorated(one_choice, (engine_option, tables))  # type: ignore[return-value]
