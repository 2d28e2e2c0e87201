"""The events that programs recorded under ``SOFTIB_RECORD`` (``softib run --record``): one file per thread, read as
columns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from softib.errors import InputError
from softib.live.c_header import CHeader
from softib.sim.recorded_events import RecordedThread

__all__ = ["COLLECTIVES", "HEADER", "collective_names", "threads_in"]

HEADER = CHeader("verbs/engine/record.h")
COLLECTIVES = CHeader("collectives.h")
MAGIC = b"SOFTIBr"
HEAD_OCTETS = 65536
"""``HEAD_OCTETS`` of ``record.c``."""
NO_RANK = 0xFFFFFFFF


def threads_in(folder: Path) -> list[RecordedThread]:
    """Return the threads that wrote to ``folder``, by process and time. Raises :class:`InputError` if a file is
    truncated, or lacks events for which there was no room."""
    heads = [(path, head) for path in sorted(folder.glob("*.events")) if (head := _head(path)) is not None]
    rate = _ns_of_a_tick([head for _, head in heads])
    threads = [one for path, head in heads if (one := _thread(path, head, rate)) is not None]
    return sorted(threads, key=lambda t: (int(t.ns[0]) if len(t.ns) else 0, t.pid, t.tid))


def _head(path: Path) -> np.void | None:
    """Return the contents of one file; None if its thread wrote no event."""
    if path.stat().st_size <= HEAD_OCTETS:
        return None
    head: np.void = np.fromfile(path, HEADER.types()["softib_record_head"], 1)[0]
    if bytes(head["magic"]) != MAGIC or head["version"] != HEADER.constant("RECORD_VERSION"):
        raise InputError(f"{path}: the recording is of another version of softib; record again")
    if head["lost"]:
        raise InputError(
            f"{path}: {int(head['lost']):,} events were lost because the file system is full; use --record on one with "
            f"more space"
        )
    return head


def _ns_of_a_tick(heads: list[np.void]) -> float:
    """Return the nanoseconds per tick, from the thread that ran longest: a short run gives an imprecise result. The
    result is valid for all threads, because they read the same counter."""
    spans = [(int(h["ticks"][1]) - int(h["ticks"][0]), int(h["ns"][1]) - int(h["ns"][0])) for h in heads]
    ticks, ns = max(spans, default=(1, 1))
    return ns / max(ticks, 1)


def _thread(path: Path, head: np.void, rate: float) -> RecordedThread | None:
    """Return the events of one file; None if its thread wrote no event."""
    events = np.fromfile(path, HEADER.types()["softib_record_event"], offset=HEAD_OCTETS)
    ended = events["type"] == 0
    events = events[: int(np.argmax(ended)) if ended.any() else len(events)]
    if not len(events):
        return None
    since = (events["ticks"] - head["ticks"][0]).astype(np.int64)
    return RecordedThread(
        pid=int(head["pid"]),
        tid=int(head["tid"]),
        rank=None if head["rank"] == NO_RANK else int(head["rank"]),
        ns=int(head["ns"][0]) + np.round(since * rate).astype(np.int64),
        compute=np.round(events["compute"] * rate).astype(np.int64),
        type=events["type"].astype(np.uint8),
        opcode=events["opcode"].astype(np.int64),
        qpn=events["qpn"].astype(np.int64),
        peer=events["peer"].astype(np.int64),
        octets=events["octets"].astype(np.int64),
        away=round(int(head["away"]) * rate),
    )


def collective_names() -> tuple[str, ...]:
    """Return the names of collectives by their number in ``collectives.h``: ``MPI_Allreduce``, ``torch
    all_reduce``. Number 0 is no collective."""
    text = COLLECTIVES.path.read_text(encoding="ascii")
    numbered = {
        int(n): (lib, rest) for lib, rest, n in re.findall(r"^#define SOFTIB_(MPI|TORCH)_(\w+) (\d+)$", text, re.M)
    }
    names = {
        n: f"MPI_{rest.capitalize()}" if lib == "MPI" else f"torch {rest.lower()}"
        for n, (lib, rest) in numbered.items()
    }
    return tuple(names.get(n, "") for n in range(max(names) + 1))
