"""Reports of Nsight Systems as SQLite (``nsys export --type sqlite``): kernels of the GPU, and NCCL's
calls with sizes and communicators.

NCCL opens an NVTX range in each call, with a payload of named fields
(src/include/nvtx_payload_schemas.h). The export stores it in ``binaryData``: a header of four words
(domain, schema, bytes, 32), then fields at the offsets in ``NVTX_PAYLOAD_SCHEMA_ENTRIES``. A kernel
belongs to the calls that its thread made before its launch, which ``correlationId`` names: the last
call, or all calls of a group.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import InputError
from softib.foreign_text import shown
from softib.input_files import content
from softib.workloads.traces.chakra import Node
from softib.workloads.traces.torch_profile import COLLECTIVE, Piece, nodes_of_pieces

__all__ = ["report_nodes"]

CALLS = {
    "ncclAllReduce": "all_reduce",
    "ncclAllGather": "all_gather",
    "ncclReduceScatter": "reduce_scatter",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclReduce": "reduce",
    "ncclAlltoAll": "all_to_all",
    "ncclGather": "gather",
    "ncclScatter": "scatter",
    "ncclSend": "send",
    "ncclRecv": "recv",
}
"""NCCL's call → PyTorch's name for it."""
OF_ONE_RANK = ("reduce_scatter", "all_to_all", "scatter")
"""Collectives whose recorded size is that of one rank's part of the input (src/collectives.cc)."""
SIZE, COMMUNICATOR, RANKS, RANK = "Message size [bytes]", "NCCL communicator ID", "No. of ranks", "Rank"
HEADER = 32
MAGIC = b"SQLite format 3\0"
WIDTHS = {5: 4, 18: 8, 22: 8}
"""Bytes of a field by its type: int, uint64_t, size_t (NVTX_PAYLOAD_ENTRY_TYPE_*)."""
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
OTHERS = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
PROFILED = "profile with nsys profile --trace=cuda,nvtx"


@dataclass
class _Batch:
    """Calls that were launched together, and their kernels as (start time, end time, stream)."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    kernels: list[tuple[float, float, int]] = field(default_factory=list)


@dataclass
class _Communicators:
    """NCCL's communicators by ID: number of ranks, and the file of each rank."""

    ranks: dict[int, int] = field(default_factory=dict)
    files: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))


@contextmanager
def _report(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the report in memory. Raises :class:`InputError` for a file that is not a report."""
    got = content(path, kind="report")
    if got.flaw or not got.data.startswith(MAGIC):
        raise InputError(f"{path}: {got.flaw or 'not a report of nsys export --type sqlite'}")
    held = sqlite3.connect(":memory:")
    try:
        held.deserialize(got.data)
        yield held
    except (sqlite3.Error, TypeError, ValueError, OverflowError, struct.error) as error:
        raise InputError(f"{path}: not a report of nsys export --type sqlite ({error}); {PROFILED}") from None
    finally:
        held.close()


def report_nodes(files: list[Path]) -> list[list[Node]]:
    """Return the nodes of each rank, whose reports are ``files``. Raises :class:`InputError`."""
    communicators, pieces, gpus = _Communicators(), [], []
    for number, file in enumerate(files):
        with _report(file) as held:
            _one_gpu(file, held)
            for _, fields in _ranges(held, "ncclCommInit%", "ncclCommSplit%"):
                communicators.files[fields[COMMUNICATOR]][fields[RANK]] = number
                communicators.ranks[fields[COMMUNICATOR]] = fields[RANKS]
            computations = [p for table in (KERNELS, *OTHERS) if _has(held, table) for p in _computations(held, table)]
            pieces.append((_talks(file, held), computations))
            gpus.append(_gpus(held))
    nodes = []
    for file, (talks, computations), of_node in zip(files, pieces, gpus, strict=True):
        talks = [p for p in talks if p.args and communicators.ranks.get(p.args.get(COMMUNICATOR, 0)) != 1]
        for piece in talks:
            _group(file, piece, communicators, len(files))
        alone = max(communicators.ranks.values(), default=1) if len(files) == 1 else None
        nodes.append(nodes_of_pieces(file, [*talks, *computations], alone, of_node))
    return nodes


def _has(held: sqlite3.Connection, table: str) -> bool:
    return bool(held.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())


def _gpus(held: sqlite3.Connection) -> tuple[str, int]:
    """Return (name of the machine's GPUs, their number); ("", 0) if the report has no table of GPUs."""
    if not _has(held, "TARGET_INFO_GPU"):
        return "", 0
    names = [str(name) for (name,) in held.execute("SELECT name FROM TARGET_INFO_GPU")]
    return (shown(names[0]), len(names)) if names else ("", 0)


def _one_gpu(path: Path, held: sqlite3.Connection) -> None:
    (count,) = held.execute(f"SELECT COUNT(*) FROM (SELECT DISTINCT globalPid, deviceId FROM {KERNELS})").fetchone()
    if count != 1:
        raise InputError(
            f"{path}: the report has kernels of {count} GPUs, but must be of one rank; start nsys for each rank, "
            "for example mpirun nsys profile -o NAME.%q{OMPI_COMM_WORLD_RANK}"
        )


def _ranges(held: sqlite3.Connection, *like: str) -> list[tuple[tuple[Any, ...], dict[str, int]]]:
    """Return ((begin, thread, call), fields) of NCCL's ranges whose name matches one of the SQL patterns ``like``."""
    if not _has(held, "NVTX_PAYLOAD_SCHEMA_ENTRIES"):
        return []
    entries: dict[tuple[int, int], list[tuple[str, int, int]]] = defaultdict(list)
    of_entries = 'SELECT domainId, schemaId, name, type, COALESCE("offset", 0) FROM NVTX_PAYLOAD_SCHEMA_ENTRIES'
    for domain, schema, name, kind, offset in held.execute(of_entries):
        if kind in WIDTHS:
            entries[domain, schema].append((name, offset, WIDTHS[kind]))
    out = []
    query = f"""SELECT e.start, e.globalTid, COALESCE(e.text, s.value) AS call, e.binaryData FROM NVTX_EVENTS e
        LEFT JOIN StringIds s ON s.id = e.textId WHERE e.binaryData IS NOT NULL
        AND ({" OR ".join("call LIKE ?" for _ in like)}) ORDER BY e.start"""
    for begin, thread, call, data in held.execute(query, like):
        domain, schema = struct.unpack_from("<QQ", data)
        fields = {
            name: int.from_bytes(data[HEADER + offset : HEADER + offset + width], "little")
            for name, offset, width in entries[domain, schema]
            if HEADER + offset + width <= len(data)
        }
        if SIZE in fields or {COMMUNICATOR, RANKS, RANK} <= set(fields):
            out.append(((begin, thread, call), fields))
    return out


def _talks(path: Path, held: sqlite3.Connection) -> list[Piece]:
    """Return NCCL's calls, each from the start of its first kernel to the end of its last one."""
    rows: dict[int, list[tuple[int, int, Any]]] = defaultdict(list)
    for (begin, thread, call), fields in _ranges(held, *CALLS):
        rows[thread].append((begin, 0, {COLLECTIVE: CALLS[call], **fields}))
    launched = f"""SELECT r.start, r.globalTid, k.start, k."end", k.streamId, n.value FROM {KERNELS} k
        JOIN StringIds n ON n.id = k.shortName LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
        ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
        WHERE n.value LIKE 'nccl%Kernel%'"""
    for at, thread, begin, end, stream, name in held.execute(launched):
        if at is None:
            raise InputError(f"{path}: kernel {name} has no launch; {PROFILED}, without CUDA graphs")
        rows[thread].append((at, 1, (begin / 1e3, end / 1e3, stream)))
    batches: list[_Batch] = []
    for thread in sorted(rows):
        behind = True
        for at, launch, text in sorted(rows[thread], key=lambda row: row[:2]):
            if launch and behind and not (batches and batches[-1].kernels):
                raise InputError(f"{path}: a kernel of NCCL at {at} ns follows no call with a size; {PROFILED}")
            if not launch and behind:
                batches.append(_Batch())
            behind = bool(launch)
            (batches[-1].kernels if launch else batches[-1].calls).append(text)
    return [piece for batch in batches for piece in _pieces(batch)]


def _pieces(batch: _Batch) -> list[Piece]:
    """Return the calls of a batch. Calls without a kernel are left out: their communicator has one rank."""
    if not batch.kernels:
        return []
    begin, end = min(k[0] for k in batch.kernels), max(k[1] for k in batch.kernels)
    return [Piece(begin, end, call, batch.kernels[0][2]) for call in batch.calls]


def _computations(held: sqlite3.Connection, table: str) -> list[Piece]:
    """Return the GPU operations in ``table`` that are not NCCL kernels."""
    if table != KERNELS:
        return [Piece(a / 1e3, b / 1e3) for a, b in held.execute(f'SELECT start, "end" FROM {table}')]
    query = f"""SELECT k.start, k."end" FROM {table} k JOIN StringIds n ON n.id = k.shortName
        WHERE n.value NOT LIKE 'nccl%Kernel%'"""
    return [Piece(a / 1e3, b / 1e3) for a, b in held.execute(query)]


def _group(path: Path, piece: Piece, communicators: _Communicators, files: int) -> None:
    """Convert the fields of a call (bytes, group, peer) to those that PyTorch's profiler would record."""
    args = piece.args
    assert args is not None
    name, communicator = args[COLLECTIVE], args.get(COMMUNICATOR)
    where = f"{path}: {name} at {piece.begin:.0f} us"
    if communicator is None:
        raise InputError(f"{where}: its range has no {COMMUNICATOR}; profile with a newer NCCL")
    count, of = communicators.ranks.get(communicator, 0), communicators.files.get(communicator, {})
    if name in OF_ONE_RANK and not count:
        raise InputError(
            f"{where}: the report does not contain the initialisation of its communicator; profile from the start of "
            f"the program"
        )
    args |= {"In msg nelems": args[SIZE] * (count if name in OF_ONE_RANK else 1), "dtype": "Byte"}
    if files == 1 and count == max(communicators.ranks.values(), default=0):
        of = {k: k for k in range(count)}
    if count and len(of) == count:
        group = [of[k] for k in sorted(of)]
        args["Process Group Ranks"] = str(group)
    elif count:
        raise InputError(
            f"{where}: its communicator has {count} ranks, and {len(of)} of them a report; give the reports of all "
            "ranks, NAME.RANK.sqlite"
        )
    else:
        group = list(range(files))
        args["Process Group Name"] = f"{communicator:#x}"
    if "Root" in args and args["Root"] < len(group):
        args["Root Rank"] = args["Root"]
    if name in ("send", "recv"):
        peer = args.get("Peer rank", -1)
        if not 0 <= peer < len(group):
            raise InputError(f"{where}: peer {peer} of {len(group)} ranks does not exist")
        args["Dst Rank" if name == "send" else "Src Rank"] = group[peer]
