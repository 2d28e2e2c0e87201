"""OpenSM's options that name GUID files, for every verb that routes."""

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


def guid_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--root_guid_file``, ``--cn_guid_file``, ``--io_guid_file``, as OpenSM has them: the command gets them in ``guid_files``."""

    def gathered(**given: Any) -> Any:
        files = {f"{kind}_guid_file": given.pop(f"{kind}_guid_file") for kind in WHAT}
        return command(**given, guid_files=files)

    gathered.__doc__, gathered.__name__ = command.__doc__, command.__name__
    gathered.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    out: Callable[..., Any] = gathered
    for kind in reversed(WHAT):
        out = click.option(
            f"--{kind}_guid_file", SHORT[kind], metavar="F", type=click.Path(), help=f"A file of {WHAT[kind]}"
        )(out)
    return out
