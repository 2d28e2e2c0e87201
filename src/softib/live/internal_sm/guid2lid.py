"""The LIDs and M_Keys of a fabric's ports from one run to the next, in the formats of OpenSM's files
in OSM_CACHE_DIR.

``guid2lid``: ``0x0002c903000e0b81 0x0001 0x0001`` (PortGUID, first and last LID). In files from
other programs, or written manually, the last LID may be absent, ``#`` begins a comment, and ports
may be missing: they get free LIDs.

``guid2mkey``: ``0x0002c903000e0b81 0x00000000deadbeef`` (PortGUID, M_Key); ``neighbors``:
``0x0002c903000e0b81:1 0x0002c9020045f1a8:7`` (PortGUID and port number of both ends of a cable).
Both are in the same folder, and have the name of the LID file with ``guid2mkey`` and
``neighbors`` instead of ``guid2lid``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from softib.errors import UnreadableFile
from softib.iba.constants import LID_UCAST_MAX
from softib.input_files import read_text
from softib.sm.managers.lid_mgr import Lids
from softib.sm.managers.mkeys import End, MKeys
from softib.sm.subnet_manager import SubnetManager

__all__ = ["keep", "read_keys", "read_lids", "restore", "write_keys", "write_lids"]


KEYS, NEIGHBOURS = "guid2mkey", "neighbors"
GUIDS, PORTS = range(1, 1 << 64), range(255)


def restore(path: Path, sm: SubnetManager) -> None:
    """Load the M_Keys stored beside ``path`` into ``sm``, and also the LIDs, unless it is configured to assign all LIDs
    again."""
    if not sm.config.reassign_lids:
        sm.lids.update(read_lids(path))
    read_keys(path, sm.mkeys)


def keep(path: Path, sm: SubnetManager) -> None:
    """Keep the LIDs and M_Keys of ``sm`` at ``path``, if it has assigned any."""
    if sm.lids:
        write_lids(path, sm.lids)
        write_keys(path, sm.mkeys)


def read_keys(lids: Path, mkeys: MKeys) -> None:
    """Read the files in the folder of ``lids`` into the manager, if they exist. A line that does
    not have this form is ignored."""
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
    """Replace the files if a port of the subnet has or had a key. Only the owner may read them. A file that cannot be
    written does not stop the manager."""
    path = _neighbour_file(lids, KEYS)
    if not (mkeys.in_play or path.exists()):
        return
    _replace(path, (f"{guid:#018x} {key:#018x}\n\n" for guid, key in sorted(mkeys.held.items())))
    ends = sorted(mkeys.neighbours.items())
    _replace(_neighbour_file(lids, NEIGHBOURS), (f"{a:#018x}:{p} {b:#018x}:{q}\n\n" for (a, p), (b, q) in ends))


def _neighbour_file(lids: Path, suffix: str) -> Path:
    if "guid2lid" in lids.name:
        return lids.with_name(lids.name.replace("guid2lid", suffix))
    return lids.with_name(f"{lids.name}.{suffix}")


def _lines(path: Path) -> list[str]:
    """Return the lines of a stored file; none if it cannot be read."""
    with contextlib.suppress(UnreadableFile):
        return read_text(path, "file of LIDs and keys", errors="replace").splitlines()
    return []


def _pairs(path: Path) -> Iterable[tuple[str, ...]]:
    return (fields for line in _lines(path) if len(fields := tuple(line.split())) == 2)


def _end(text: str) -> End:
    guid, _, number = text.partition(":")
    end = int(guid, 16), int(number)
    if end[0] not in GUIDS or end[1] not in PORTS:
        raise ValueError(text)
    return end


def _replace(path: Path, lines: Iterable[str], mode: int = 0o600) -> None:
    new = path.with_name(path.name + ".new")
    with contextlib.suppress(OSError):
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as out:
            out.writelines(lines)
        os.replace(new, path)


def read_lids(path: Path) -> Lids:
    """Return the LIDs by PortGUID; empty if there is no file. A line that does not have this form, or that claims LIDs
    of an earlier line, is ignored; the port then gets another LID."""
    lids: Lids = {}
    taken = bytearray(LID_UCAST_MAX + 1)
    for line in _lines(path):
        try:
            guid, first, *rest = (int(word, 16) for word in line.split("#")[0].split())
            (last,) = rest or (first,)
        except ValueError:
            continue
        if (
            0 < guid < 1 << 64
            and 0 < first <= last <= LID_UCAST_MAX
            and guid not in lids
            and not any(taken[first : last + 1])
        ):
            lids[guid] = (first, last)
            taken[first : last + 1] = b"\1" * (last + 1 - first)
    return lids


def write_lids(path: Path, lids: Lids) -> None:
    """Replace the file atomically; a file that cannot be written does not stop the manager."""
    lines = (f"{guid:#018x} {first:#06x} {last:#06x}\n" for guid, (first, last) in sorted(lids.items()))
    _replace(path, lines, 0o666)
