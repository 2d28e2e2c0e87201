"""Files of GUIDs, as OpenSM's options name them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import InputError
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.routing.engine import RouteOptions

__all__ = ["write_guid_files"]


def write_guid_files(options: RouteOptions, folder: str) -> dict[str, str]:
    """Write ``root_guids.conf`` and, where there are such nodes, ``cn_guids.conf`` and
    ``io_guids.conf`` into ``folder``; their paths by OpenSM's option. Raises :class:`InputError`
    where that is not possible."""
    files = {}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for kind, guids in (("root", options.root_guids), ("cn", options.cn_guids), ("io", options.io_guids)):
            if guids:
                path = Path(folder) / f"{kind}_guids.conf"
                write_text(path, "".join(f"{guid:#018x}\n" for guid in guids))
                files[f"{kind}_guid_file"] = str(path)
    except OSError as error:
        raise InputError(f"{folder}: cannot write there: {error.strerror or error}") from None
    return files
