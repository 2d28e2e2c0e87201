"""OpenSM's options for engines (GUID files, torus-2QoS.conf, tables of engine file, VLs of nue),
for every verb that routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["guid_file_options"]

WHAT = {
    "root": "NodeGUIDs of the top switches (updn, dnup, ftree): with them ftree takes a tree that is not pure.",
    "cn": "PortGUIDs of the compute nodes (ftree); all others are none.",
    "io": "PortGUIDs of I/O nodes (ftree), which may hang anywhere in the tree.",
}
SHORT = {"root": "-a", "cn": "-u", "io": "-G"}
ENGINE_OPTIONS = (
    click.option("--torus_config", metavar="F", type=click.Path(), help="torus-2QoS.conf of engine torus-2QoS."),
    click.option(
        "--lfts_file", "-U", metavar="F", type=click.Path(), help="Tables of engine file, as dump_lfts writes them."
    ),
    click.option("--pgrp_policy_file", metavar="F", type=click.Path(), help="Port groups of engine chain."),
    click.option("--topo_policy_file", metavar="F", type=click.Path(), help="Parts of the fabric for engine chain."),
    click.option(
        "--rch_policy_file",
        metavar="F",
        type=click.Path(),
        help="Steps of engine chain: which engine routes which part.",
    ),
    click.option(
        "--nue_max_num_vls",
        type=click.IntRange(0, 15),
        metavar="N",
        help="VLs that nue uses; 0: as many as it needs (default: 1).",
    ),
)
ENGINE_NAMES = (
    "torus_config",
    "lfts_file",
    "pgrp_policy_file",
    "topo_policy_file",
    "rch_policy_file",
    "nue_max_num_vls",
)


def guid_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--root_guid_file``, ``--cn_guid_file``, ``--io_guid_file``, and the options of single
    engines, as OpenSM has them: the command gets them in ``guid_files``."""

    def gathered(**given: Any) -> Any:
        files = {f"{kind}_guid_file": given.pop(f"{kind}_guid_file") for kind in WHAT}
        files |= {name: given.pop(name) for name in ENGINE_NAMES}
        return command(**given, guid_files=files)

    gathered.__doc__, gathered.__name__ = command.__doc__, command.__name__
    gathered.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    out: Callable[..., Any] = gathered
    for option in reversed(ENGINE_OPTIONS):
        out = option(out)
    for kind in reversed(WHAT):
        out = click.option(
            f"--{kind}_guid_file", SHORT[kind], metavar="F", type=click.Path(), help=f"A file of {WHAT[kind]}"
        )(out)
    return out
