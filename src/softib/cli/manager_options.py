"""Settings of our subnet manager that ``softib up`` and ``softib sm run`` take alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from softib.cli.guid_files import guid_file_options

__all__ = ["given_settings", "manager_options"]

OPTIONS = (
    click.option(
        "--engine",
        metavar="E",
        help=(
            "Routing engine of our manager or a list of them: minhop, updn, dnup, ftree, dor, lash, sssp, dfsssp, "
            "nue, torus-2QoS, file, chain (default: the file's, else ftree,updn,dfsssp,lash, as report and check "
            "have it)."
        ),
    ),
    click.option("--lmc", type=click.IntRange(0, 7), help="LMC of our manager (default: the file's)."),
    click.option(
        "--partitions",
        "--Pconfig",
        metavar="FILE",
        type=click.Path(),
        help="Partitions of our manager, as OpenSM's partitions.conf.",
    ),
    click.option(
        "--sm-config", metavar="FILE", type=click.Path(), help="OpenSM's options file (opensm -c) for our manager."
    ),
    click.option(
        "--sweep",
        type=click.IntRange(0, 10**6),
        metavar="S",
        help="Seconds between its looks at the switches; 0: only after traps (default: 10).",
    ),
    click.option("--priority", type=click.IntRange(0, 15), help="Its priority among subnet managers (default: 0)."),
    click.option(
        "--reassign-lids",
        is_flag=True,
        help="Forget the LIDs that ports have in the file, or had when this fabric ran before.",
    ),
)
NAMES = ("engine", "lmc", "partitions", "sm_config", "sweep", "priority", "reassign_lids")


def manager_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of :data:`OPTIONS` and the GUID files: the command gets them in ``manager``, for
    :func:`given_settings`."""

    def gathered(**given: Any) -> Any:
        manager = {name: given.pop(name) for name in NAMES} | given.pop("guid_files")
        return command(**given, manager=manager)

    gathered.__doc__, gathered.__name__ = command.__doc__, command.__name__
    gathered.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    out = guid_file_options(gathered)
    for option in reversed(OPTIONS):
        out = option(out)
    return out


def given_settings(manager: dict[str, Any]) -> tuple[dict[str, Any], str | None, str | None]:
    """(fields of ``ManagerSettings.given``, its ``options``, its ``partitions``) of what the
    command line says."""
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
    return {k: v for k, v in fields.items() if v is not None}, manager["sm_config"], manager["partitions"]
