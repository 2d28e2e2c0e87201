"""The M_Keys of a fabric's ports from one run to the next, in OpenSM's file formats (its
``guid2mkey`` and ``neighbors`` in OSM_CACHE_DIR).

guid2mkey: ``0x0002c903000e0b81 0x00000000deadbeef`` (PortGUID, M_Key); neighbors:
``0x0002c903000e0b81:1 0x0002c9020045f1a8:7`` (PortGUID and port number of both ends of a cable).
Both lie beside the file of the LIDs, and have its name with ``guid2mkey`` and ``neighbors`` in
place of ``guid2lid``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from softib.errors import UnreadableFile
from softib.input_files import read_text
from softib.sm.managers.mkeys import End, MKeys

__all__ = ["read_keys", "write_keys"]

KEYS, NEIGHBOURS = "guid2mkey", "neighbors"
GUIDS, PORTS = range(1, 1 << 64), range(255)


def read_keys(lids: Path, mkeys: MKeys) -> None:
    """Enter what the files beside ``lids`` say; nothing where there are none. A line that is no
    such line is left out."""
    held = {}
    for a, b in _pairs(_neighbour_file(lids, KEYS)):
        with contextlib.suppress(ValueError):
            guid, key = int(a, 16), int(b, 16)
            if guid in GUIDS and 0 <= key < 1 << 64:
                held[guid] = key
    mkeys.update(held)
    for a, b in _pairs(_neighbour_file(lids, NEIGHBOURS)):
        with contextlib.suppress(ValueError):
            mkeys.neighbours[_end(a)] = _end(b)


def write_keys(lids: Path, mkeys: MKeys) -> None:
    """Replace the files, which the owner alone may read, where a port of the subnet has a key, or
    had one. A place that cannot be written is no reason to stop managing."""
    path = _neighbour_file(lids, KEYS)
    if not (mkeys.in_play or path.exists()):
        return
    _replace(path, (f"{guid:#018x} {key:#018x}" for guid, key in sorted(mkeys.held.items())))
    ends = sorted(mkeys.neighbours.items())
    _replace(_neighbour_file(lids, NEIGHBOURS), (f"{a:#018x}:{p} {b:#018x}:{q}" for (a, p), (b, q) in ends))


def _neighbour_file(lids: Path, what: str) -> Path:
    if "guid2lid" in lids.name:
        return lids.with_name(lids.name.replace("guid2lid", what))
    return lids.with_name(f"{lids.name}.{what}")


def _pairs(path: Path) -> Iterable[tuple[str, str]]:
    try:
        lines = read_text(path, "file of LIDs and keys", errors="replace").splitlines()
    except UnreadableFile:
        return
    for line in lines:
        fields = line.split()
        if len(fields) == 2:
            yield fields[0], fields[1]


def _end(text: str) -> End:
    guid, _, number = text.partition(":")
    end = int(guid, 16), int(number)
    if end[0] not in GUIDS or end[1] not in PORTS:
        raise ValueError(text)
    return end


def _replace(path: Path, lines: Iterable[str]) -> None:
    new = path.with_name(path.name + ".new")
    with contextlib.suppress(OSError):
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n\n" for line in lines)
        os.replace(new, path)
