"""Reader of traces of PyTorch's profiler (``torch.profiler``, in Chrome's JSON format): the activity of the GPU, and
NCCL's kernels with their sizes.

In the replay, an operation waits for the operations that had ended in the profile when it began, and idle times are
kept. Computing kernels become one computation if no communication starts or ends between them. The recorded time of a
collective is not used.
"""

from __future__ import annotations

import ast
import math
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softib.errors import InputError
from softib.foreign_text import shown
from softib.workloads.traces.chakra import Node, NodeType
from softib.workloads.traces.plain_collectives import COLLECTIVES

__all__ = ["COLLECTIVE", "DEVICE", "DEVICES", "Piece", "collective_of", "nodes_of_pieces", "of_rank", "profile_nodes"]

NAMES = {
    "allreduce": "all-reduce",
    "all_reduce": "all-reduce",
    "all_reduce_barrier": "barrier",
    "reduce": "reduce",
    "all_gather": "all-gather",
    "allgather": "all-gather",
    "allgather_into_tensor": "all-gather",
    "gather": "gather",
    "scatter": "scatter",
    "broadcast": "broadcast",
    "all_to_all": "all-to-all",
    "all_to_allv": "all-to-all",
    "alltoall": "all-to-all",
    "reduce_scatter": "reduce-scatter",
    "reduce_scatter_tensor": "reduce-scatter",
    "barrier": "barrier",
}
"""PyTorch's name of a collective, without the parts that :func:`collective_of` removes → Chakra's name."""
OCTETS = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
"""Bytes of an element by ``dtype`` (c10/core/ScalarType.h)."""
KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
COLLECTIVE = "Collective name"
DEVICE, DEVICES = "gpu_name", "gpus_of_node"
"""Attributes of the first node of a GPU's profile: the GPU's name (empty: unknown), and the number of GPUs in its node
(0: unknown)."""
MESSAGES = {"send": (NodeType.COMM_SEND, "comm_dst", "Dst Rank"), "recv": (NodeType.COMM_RECV, "comm_src", "Src Rank")}


def collective_of(name: str) -> str | None:
    """Return the collective that PyTorch calls ``name``; None for another operation."""
    bare = name.lstrip("_").removesuffix("_coalesced").removesuffix("_oop").removesuffix("_base")
    return NAMES.get(bare)


@dataclass
class Piece:
    """A computation, or a kernel of NCCL (which has ``args``), on a stream. Times are in microseconds."""

    begin: float
    end: float
    args: dict[str, Any] | None = None
    stream: Any = None


def profile_nodes(path: Path, held: dict[str, Any]) -> list[Node]:
    """Return the nodes of the rank whose profile is ``held``. Raises :class:`InputError` with the file
    and the invalid event."""
    rows = held["traceEvents"]
    if not isinstance(rows, list):
        raise InputError(f"{path}: its traceEvents are no list")
    pieces = []
    for k, row in enumerate(rows):
        try:
            pieces += _piece(row)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{path}: event {k + 1} is not one of a profile ({type(error).__name__}: {error})"
            ) from None
    if not any(p.args is not None for p in pieces):
        raise InputError(
            f"{path}: no kernel has a {COLLECTIVE}: profile with ProfilerActivity.CUDA and the nccl backend of "
            "PyTorch 2.4 or newer"
        )
    about = held.get("distributedInfo")
    job_ranks = about.get("world_size") if isinstance(about, dict) else None
    devices = held.get("deviceProperties")
    described = [d for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
    name = shown(str(described[0].get("name", ""))) if described else ""
    return nodes_of_pieces(path, pieces, job_ranks, (name, len(described)))


def nodes_of_pieces(
    path: Path, pieces: list[Piece], job_ranks: Any = None, gpus: tuple[str, int] = ("", 0)
) -> list[Node]:
    """Return the nodes of a rank's ``pieces``; ``job_ranks``: ranks of the job, if known; ``gpus``: name and
    number of the GPUs of its node. Raises :class:`InputError`."""
    talks = sorted((p for p in pieces if p.args is not None), key=lambda p: p.begin)
    nodes = _ordered(path, _merged([p for p in pieces if p.args is None], talks) + talks)
    first = nodes[0].attributes = nodes[0].attributes or {}
    first |= {DEVICE: gpus[0], DEVICES: gpus[1]}
    if isinstance(job_ranks, int) and job_ranks > 0:
        first["world_size"] = job_ranks
    return nodes


def _piece(row: Any) -> list[Piece]:
    if not isinstance(row, dict) or row.get("ph") != "X" or row.get("cat") not in KERNELS:
        return []
    begin, took, args = float(row["ts"]), float(row["dur"]), row.get("args") or {}
    if not (math.isfinite(begin) and math.isfinite(took) and took >= 0):
        raise ValueError(f"a time of {begin} and {took} us")
    if not isinstance(args, dict):
        raise TypeError("args are no mapping")
    if COLLECTIVE not in args:
        if str(row.get("name", "")).startswith("nccl"):
            raise ValueError(f"a kernel of NCCL without {COLLECTIVE}, which PyTorch 2.4 and newer write")
        return [Piece(begin, begin + took)]
    return [Piece(begin, begin + took, args, args.get("stream"))]


def _merged(kernels: list[Piece], talks: list[Piece]) -> list[Piece]:
    """Return the computing kernels, joined if no communication begins or ends between them."""
    cuts = sorted({time for p in talks for time in (p.begin, p.end)})
    out: list[Piece] = []
    before = -1
    for kernel in sorted(kernels, key=lambda p: p.begin):
        part = bisect_right(cuts, kernel.begin)
        if part == before:
            out[-1].end = max(out[-1].end, kernel.end)
            continue
        if out:
            out[-1].end = min(out[-1].end, kernel.begin)
        out.append(Piece(kernel.begin, kernel.end))
        before = part
    return out


def _ordered(path: Path, pieces: list[Piece]) -> list[Node]:
    """Return the nodes of ``pieces``. Each waits for the last operation on every stream that had ended when it began,
    and then for the idle time before it."""
    nodes: list[Node] = []
    done: dict[Any, list[tuple[float, int]]] = {}
    first = min(p.begin for p in pieces)
    for piece in sorted(pieces, key=lambda p: (p.begin, p.end)):
        needs, since = [], first
        for ends in done.values():
            at = bisect_right(ends, (piece.begin, len(pieces) * 2))
            if at:
                since = max(since, ends[at - 1][0])
                needs.append(ends[at - 1][1])
        node = Node(len(nodes), "computation", NodeType.COMP, data_deps=tuple(needs), attributes={})
        if piece.args is None:
            node.micros = piece.end - since
            key: Any = "GPU"
        else:
            waits = Node(len(nodes), "wait", NodeType.COMM_COLL, (), tuple(needs), piece.begin - since, {})
            nodes.append(waits)
            node.number, node.data_deps, key = len(nodes), (waits.number,), ("stream", str(piece.stream))
            _talk(path, node, piece.args)
        nodes.append(node)
        ends = done.setdefault(key, [])
        ends.append((max(piece.end, ends[-1][0] if ends else piece.end), node.number))
    return nodes


def _talk(path: Path, node: Node, args: dict[str, Any]) -> None:
    """Turn ``node`` into the collective or message that ``args`` describe."""
    node.name = str(args[COLLECTIVE])
    where = f"{path}: collective {shown(node.name)!r}"
    octets, many = OCTETS.get(str(args.get("dtype"))), args.get("In msg nelems")
    collective = collective_of(node.name)
    if collective != "barrier" and (octets is None or not isinstance(many, int) or isinstance(many, bool) or many < 0):
        raise InputError(
            f"{where}: In msg nelems {shown(str(many))} of dtype {shown(str(args.get('dtype')))} is no size"
        )
    assert node.attributes is not None
    node.attributes["comm_size"] = 0 if collective == "barrier" else (many or 0) * (octets or 0)
    if node.name in MESSAGES:
        node.type, peer, name = MESSAGES[node.name]
        node.attributes[peer] = args.get(name)
        return
    if collective is None:
        raise InputError(f"{where} is not one that softib knows: {', '.join(sorted((*NAMES, *MESSAGES)))}")
    node.type = NodeType.COMM_COLL
    node.attributes |= {"comm_type": COLLECTIVES.index(collective)}
    if collective in ("broadcast", "reduce", "gather", "scatter") and isinstance(args.get("Root Rank"), int):
        node.attributes["comm_root"] = args["Root Rank"]
    members = _ranks(str(args.get("Process Group Ranks", "")), args.get("Group size"))
    if members:
        node.attributes["comm_group"] = members
    elif args.get("Process Group Name") is not None:
        node.attributes["pg_name"] = str(args["Process Group Name"])


def _ranks(text: str, size: Any) -> list[int]:
    """Return the ranks in a list like ``[0, 1, 2]``. PyTorch ends a long list with ``...``: the ranks then continue in
    equal steps up to ``size`` ranks. Returns an empty list if the trace has no ranks."""
    try:
        held = ast.literal_eval(text.replace(", ...", ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if not isinstance(held, list) or not all(type(r) is int and 0 <= r < 1 << 31 for r in held):
        return []
    if "..." in text and len(held) > 1 and type(size) is int and len(held) < size <= 1 << 20:
        held = [held[0] + k * (held[1] - held[0]) for k in range(size)]
    return held


def of_rank(path: Path, nodes: list[Node], rank: int, ranks: int) -> list[Node]:
    """Return the nodes of ``rank`` if only one rank has a profile. The groups of all ranks are assumed to have the same
    form, for example 0, 8, 16 and 1, 9, 17. Raises :class:`InputError`."""
    out = []
    for node in nodes:
        group = node.get("comm_group")
        if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            raise InputError(f"{path}: it sends and receives; give the profiles of all ranks, NAME.RANK.json")
        if isinstance(group, list):
            step = group[1] - group[0] if len(group) > 1 else 1
            block = step * len(group)
            even = step > 0 and group == list(range(group[0], group[0] + block, step)) and ranks % block == 0
            if not even:
                raise InputError(
                    f"{path}: group {shown(str(group))} does not divide {ranks:,} ranks evenly; give the profiles of "
                    "all ranks, NAME.RANK.json"
                )
            base = rank // block * block + rank % step
            attributes = {**(node.attributes or {}), "comm_group": list(range(base, base + block, step))}
            node = Node(node.number, node.name, node.type, (), node.data_deps, node.micros, attributes)
        out.append(node)
    return out
