"""The LIDs of a fabric's ports from one run to the next, in OpenSM's file format (its ``guid2lid``
in OSM_CACHE_DIR).

0x0002c903000e0b81 0x0001 0x0001

Of files that other programs or people wrote, the last LID may be absent, a ``#`` begins a comment,
and not every port need be there: those that are not get free LIDs.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from softib.errors import UnreadableFile
from softib.iba.constants import LID_UCAST_MAX
from softib.input_files import read_text
from softib.sm.managers.lid_mgr import Lids

__all__ = ["read_lids", "write_lids"]


def read_lids(path: Path) -> Lids:
    """PortGUID → LIDs; nothing where there is no file. A line that is no such line, or that claims
    LIDs of an earlier one, is left out: the port gets another LID then."""
    found: Lids = {}
    taken = bytearray(LID_UCAST_MAX + 1)
    try:
        lines = read_text(path, "file of LIDs and keys", errors="replace").splitlines()
    except UnreadableFile:
        return found
    for line in lines:
        try:
            guid, first, *rest = (int(word, 16) for word in line.split("#")[0].split())
            (last,) = rest or (first,)
        except ValueError:
            continue
        if (
            0 < guid < 1 << 64
            and 0 < first <= last <= LID_UCAST_MAX
            and guid not in found
            and not any(taken[first : last + 1])
        ):
            found[guid] = (first, last)
            taken[first : last + 1] = b"\1" * (last + 1 - first)
    return found


def write_lids(path: Path, lids: Lids) -> None:
    """Replace the file at once; a place that cannot be written is no reason to stop managing."""
    text = "".join(f"{guid:#018x} {first:#06x} {last:#06x}\n" for guid, (first, last) in sorted(lids.items()))
    new = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        new.write_text(text)
        os.replace(new, path)
