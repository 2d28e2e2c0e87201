"""OpenSM's options that name GUID files, for every verb that routes; and writing such files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from softib.routing.engine import RouteOptions

__all__ = ["guid_file_options", "write_guid_files"]

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


def write_guid_files(options: RouteOptions, folder: str) -> list[str]:
    """Write ``root_guids.conf`` and, where there are such nodes, ``io_guids.conf`` into ``folder``; the words that hand them to
    softib or OpenSM. Raises :class:`InputError` where that is not possible."""
    from softib.errors import InputError

    arguments = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for kind, guids in (("root", options.root_guids), ("cn", options.cn_guids), ("io", options.io_guids)):
            if guids:
                path = Path(folder) / f"{kind}_guids.conf"
                path.write_text("".join(f"{guid:#018x}\n" for guid in guids))
                arguments += [f"--{kind}_guid_file", str(path)]
    except OSError as error:
        raise InputError(f"{folder}: cannot write there: {error.strerror or error}") from None
    return arguments
