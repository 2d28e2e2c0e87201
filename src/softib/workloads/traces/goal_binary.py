"""GOAL schedules in binary, as written by ``txt2bin`` of LogGOPSim and LogGOPSim2. A file has a magic number (4223),
the number of ranks, and a table with the start and end of each rank's data. The data of a rank is its operations, the
operations without dependencies, and, for each operation, a list of the operations that wait for it. LogGOPSim2's
operations are longer: they have counters of Portals (17 bytes, in its first files) and handlers (65 bytes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from softib.errors import InputError
from softib.plural import counted, plural
from softib.workloads.schedule.schedule import Kind, Schedule

__all__ = ["is_binary", "portals_text", "read_binary", "write_binary"]

MAGIC = 4223
HEADER = np.dtype([("magic", "<u8"), ("ranks", "<u4"), ("cpus", "u1"), ("nics", "u1")])
AFTER_MAGIC = 8
"""Offsets in the table are relative to this byte of the file."""
_COMMON = [
    ("waits", "<u4"),
    ("type", "u1"),
    ("peer", "<u4"),
    ("size", "<u8"),
    ("tag", "<u4"),
    ("cpu", "u1"),
    ("nic", "u1"),
    ("followers", "<u4"),
    ("at", "<u4"),
    ("starters", "<u4"),
    ("starters_at", "<u4"),
]
SHORT = np.dtype(_COMMON)
LONG = np.dtype([*_COMMON, ("portals", "V65")])
"""Operations of LogGOPSim (SHORT) and of LogGOPSim2 (LONG)."""
PORTALS = np.dtype(
    [*_COMMON, ("options", "<u4"), ("unknown", "u1"), ("reaches", "<u4"), ("when", "<u4"), ("ct", "<u4")]
)
"""An operation in the first files of LogGOPSim2. Fields that a type of operation does not use repeat the value of the
previous operation."""
PUT, APPEND, TEST, TRIGGERED_PUT = 4, 6, 7, 8
KINDS = {1: Kind.SEND, 2: Kind.RECV, 3: Kind.COMPUTE}
PS_PER_NS = 1000


def is_binary(data: bytes) -> bool:
    """Return whether ``data`` begins like a binary schedule."""
    return data[:8] == MAGIC.to_bytes(8, "little")


def read_binary(path: Path, data: bytes) -> Schedule:
    """Return the schedule in ``data``. Raises :class:`InputError` if it ends early, or its parts are
    inconsistent."""
    ranks, table = _table(path, data)
    columns: list[np.ndarray] = []
    follows: list[np.ndarray] = []
    starts: list[np.ndarray] = []
    base = 0
    for rank in range(ranks):
        ops, lists = _rank(path, rank, _octets(path, rank, table, data))
        row, start = _followers(path, rank, ops, lists)
        follows.append(row + base)
        starts.append(start)
        columns.append(ops)
        base += len(ops)
    return _schedule(path, ranks, columns, np.concatenate(follows), np.concatenate(starts))


def _followers(path: Path, rank: int, ops: np.ndarray, lists: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each operation in order, the operations that wait for it: first those that wait for its end, then
    those that wait for its start. Also return a bool for each: whether it waits for the start."""
    ends, starters = ops["followers"].astype(np.int64), ops["starters"].astype(np.int64)
    begin = np.cumsum(ends) - ends
    if len(lists) and lists.max() >= len(ops):
        raise InputError(f"{path}: rank {rank}: an operation that does not exist waits for another")
    if not starters.any() and (ops["at"][ends > 0] == begin[ends > 0]).all():
        return lists.astype(np.int64), np.zeros(len(lists), bool)
    both = np.stack([ends, starters], axis=1).ravel()
    place = np.repeat(
        np.stack([ops["at"], ops["starters_at"]], axis=1).ravel().astype(np.int64) - (np.cumsum(both) - both), both
    )
    place += np.arange(len(place))
    if len(place) and (place.min() < 0 or place.max() >= len(lists)):
        raise InputError(f"{path}: rank {rank}: an operation that does not exist waits for another")
    return lists[place].astype(np.int64), np.repeat(np.tile([False, True], len(ops)), both)


def _table(path: Path, data: bytes) -> tuple[int, np.ndarray]:
    """Return the number of ranks, and the start and end offsets of each rank's data."""
    if len(data) < HEADER.itemsize:
        raise InputError(f"{path}: {len(data)} bytes are not a binary GOAL schedule")
    ranks = int(np.frombuffer(data, HEADER, 1)["ranks"][0])
    table_end = HEADER.itemsize + 16 * ranks
    if ranks < 1 or len(data) < table_end:
        raise InputError(
            f"{path}: a binary GOAL schedule of {counted(ranks, 'rank')} is longer than {len(data):,} bytes"
        )
    table = np.frombuffer(data, "<u8", 2 * ranks, HEADER.itemsize).reshape(ranks, 2).astype(np.int64) + AFTER_MAGIC
    return ranks, table


def _octets(path: Path, rank: int, table: np.ndarray, data: bytes) -> memoryview:
    """Return the part of the file for ``rank``."""
    begin, end = (int(v) for v in table[rank])
    if not HEADER.itemsize + 16 * len(table) <= begin <= end <= len(data):
        raise InputError(f"{path}: rank {rank} is at {begin:,} to {end:,} of {len(data):,} bytes")
    return memoryview(data)[begin:end]


def portals_text(path: Path, data: bytes) -> bytes | None:
    """Convert a schedule in the binary format of LogGOPSim2's first files, whose operations have fields of Portals, to
    text. Return None if the file is not in this format."""
    ranks, table = _table(path, data)
    lines = [f"num_ranks {ranks}"]
    for rank in range(ranks):
        held = _octets(path, rank, table, data)
        parts = _fitting(held, PORTALS)
        if parts is None:
            return None
        lines += [f"rank {rank} {{", *_lines(path, rank, *parts), "}"]
    return "\n".join(lines).encode()


def _lines(path: Path, rank: int, ops: np.ndarray, lists: np.ndarray) -> list[str]:
    forms = {
        1: "send {size}b to {peer} tag {tag}",
        2: "recv {size}b from {peer} tag {tag}",
        3: "calc {size}",
        PUT: "put {size}b to {peer} ct {ct} tag {tag}",
        APPEND: "append {size}b to priority_list allowed {peer} ct {ct} tag {tag}",
        TEST: "test {when} for {reaches}",
        TRIGGERED_PUT: "tput {size}b to {peer} when {when} reaches {reaches} ct {ct} tag {tag}",
    }
    lines, waits = [], []
    for i, op in enumerate(ops):
        if int(op["type"]) not in forms:
            raise InputError(f"{path}: rank {rank} has an operation of type {op['type']}, which is not supported")
        lines.append(f"l{i}: " + forms[int(op["type"])].format(**{name: int(op[name]) for name in PORTALS.names or ()}))
        for many, at, word in (("followers", "at", "requires"), ("starters", "starters_at", "irequires")):
            waits += [f"l{follower} {word} l{i}" for follower in lists[op[at] : int(op[at]) + int(op[many])].tolist()]
    return lines + waits


def _rank(path: Path, rank: int, data: memoryview) -> tuple[np.ndarray, np.ndarray]:
    """Return (operations, lists of waiting operations) of one rank. The length of an operation is found by trial: the
    one with which the data can be read."""
    if len(data) < 8:
        raise InputError(f"{path}: rank {rank} ends early")
    for kind in (SHORT, LONG):
        parts = _fitting(data, kind)
        if parts is not None:
            return parts
    count = int(np.frombuffer(data, "<u4", 1)[0])
    raise InputError(
        f"{path}: rank {rank}: {counted(count, 'operation')} {plural(count, 'does', 'do')} not fill "
        f"{len(data):,} bytes in any known form"
    )


def _fitting(data: memoryview, kind: np.dtype) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (operations, lists of waiting operations) if ``data`` can be read as a rank with operations of ``kind``,
    otherwise None."""
    if len(data) < 8:
        return None
    count, roots = np.frombuffer(data, "<u4", 2).tolist()
    at = 8 + 4 * roots
    lists_at = at + kind.itemsize * count
    if lists_at > len(data) or (len(data) - lists_at) % 4:
        return None
    ops = np.frombuffer(data, kind, count, at)
    lists = np.frombuffer(data, "<u4", offset=lists_at)
    followers = int(ops["followers"].sum(dtype=np.int64) + ops["starters"].sum(dtype=np.int64))
    fits = followers == len(lists) and int(ops["waits"].sum(dtype=np.int64)) == followers
    return (ops, lists) if fits else None


def _schedule(path: Path, ranks: int, columns: list[np.ndarray], follows: np.ndarray, starts: np.ndarray) -> Schedule:
    from softib.sim.loggops_kernels import turned

    rank = np.repeat(np.arange(ranks), [len(c) for c in columns]).astype(np.int32)
    join = lambda name: np.concatenate([c[name] for c in columns])
    types = join("type")
    odd = (types < min(KINDS)) | (types > max(KINDS))
    if odd.any():
        i = int(np.argmax(odd))
        raise InputError(
            f"{path}: rank {rank[i]} has an operation of type {types[i]}, a Portals operation, which softib reads only "
            f"from GOAL text; convert the schedule to text"
        )
    kind = np.array([KINDS.get(k, 0) for k in range(4)], np.uint8)[types]
    computes = kind == Kind.COMPUTE
    size = join("size").astype(np.int64)
    if (size < 0).any():
        raise InputError(
            f"{path}: size {int(join('size').max()):,} is too large; sizes (bytes of a message, ns of a computation) "
            f"are at most 2^63 - 1"
        )
    n = len(rank)
    begins = np.zeros(n + 1, np.int64)
    np.cumsum(join("followers").astype(np.int64) + join("starters"), out=begins[1:])
    first, at = np.zeros(n + 2, np.int64), np.empty(len(follows), np.int64)
    turned(follows, np.arange(len(follows)), first, at)
    needs = np.repeat(np.arange(n), np.diff(begins))[at]
    return Schedule(
        name=path.stem,
        ranks=ranks,
        rank=rank,
        kind=kind,
        peer=np.where(computes, -1, join("peer").astype(np.int64)).astype(np.int32),
        size=np.where(computes, 0, size),
        tag=_tags(join("tag"), kind),
        compute_ps=np.where(computes, size * PS_PER_NS, 0),
        processor=join("cpu").astype(np.int32),
        first=first[:-1],
        needs=needs,
        on_start=starts[at],
    )


def _tags(tag: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Return the tags of operations. In the file, the tag of a receive from any tag has all bits set."""
    return np.where((kind == Kind.RECV) & (tag == 0xFFFFFFFF), -1, tag.astype(np.int64))


def write_binary(s: Schedule) -> bytes:
    """Return ``s`` in the format of LogGOPSim's ``txt2bin``; times are rounded to
    nanoseconds. Raises :class:`InputError` for tags, sizes and processors that the format cannot represent."""
    if len(s) and (int(s.tag.max()) >= 0xFFFFFFFF or int(s.processor.max()) > 255):
        raise InputError(
            f"{s.name}: tags over {0xFFFFFFFE:,} and processors over 255 do not fit in a binary schedule; write text"
        )
    n = len(s)
    owner = np.repeat(np.arange(n), np.diff(s.first))
    order = np.lexsort((owner, s.on_start, s.needs))
    follower, needed, starts = owner[order], s.needs[order], s.on_start[order]
    begins = np.searchsorted(s.rank, np.arange(s.ranks + 1))
    lists_begin = np.searchsorted(needed, begins)
    ops = np.zeros(n, SHORT)
    ops["waits"] = np.diff(s.first)
    ops["type"] = np.array([next(k for k, v in KINDS.items() if v == kind) for kind in Kind], np.uint8)[s.kind]
    computes = s.kind == Kind.COMPUTE
    ops["peer"] = np.where(computes, 0, s.peer).astype(np.int64) & 0xFFFFFFFF
    ops["size"] = np.where(computes, (s.compute_ps + PS_PER_NS // 2) // PS_PER_NS, s.size)
    ops["tag"] = s.tag & 0xFFFFFFFF
    ops["cpu"] = s.processor
    ops["followers"] = np.bincount(needed[~starts], minlength=n)
    ops["starters"] = np.bincount(needed[starts], minlength=n)
    ops["at"] = np.searchsorted(needed, np.arange(n)) - lists_begin[s.rank]
    ops["starters_at"] = ops["at"] + ops["followers"]
    parts, table, at = [], np.zeros((s.ranks, 2), "<u8"), HEADER.itemsize + 16 * s.ranks - AFTER_MAGIC
    waits_for_nothing = ops["waits"] == 0
    for r in range(s.ranks):
        of_rank = slice(begins[r], begins[r + 1])
        roots = np.flatnonzero(waits_for_nothing[of_rank]).astype("<u4")
        head = np.array([begins[r + 1] - begins[r], len(roots)], "<u4").tobytes() + roots.tobytes()
        part = (
            head
            + ops[of_rank].tobytes()
            + (follower[lists_begin[r] : lists_begin[r + 1]] - begins[r]).astype("<u4").tobytes()
        )
        table[r] = at, at + len(part)
        at += len(part)
        parts.append(part)
    header = np.array([(MAGIC, s.ranks, int(s.processor.max(initial=0)) + 1, 1)], HEADER)
    return header.tobytes() + table.tobytes() + b"".join(parts)
