"""Chakra traces as a :class:`~softib.workloads.schedule.schedule.Schedule`: computations take their recorded time,
sends and receives are messages, collectives are expanded. A node begins when all nodes in its data and control
dependencies have ended. Control dependencies on nodes that are not in the file are ignored. If the control dependencies
of a rank form a cycle, all of them are ignored: converters before Chakra 1.0.2 store callers there, which end after the
nodes that they call. A rank has three processors: the CPU, the GPU's stream for computing, and its stream for
communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from softib.errors import InputError
from softib.input_files import content, uncompressed_name
from softib.workloads.schedule.builder import Builder
from softib.workloads.schedule.schedule import ANY, Kind, Schedule
from softib.workloads.traces.chakra import Node, NodeType, rank_files, read_nodes
from softib.workloads.traces.chakra_groups import Grouping, GroupKey
from softib.workloads.traces.nsys_report import report_nodes
from softib.workloads.traces.plain_collectives import COLLECTIVES, Expand, Operations, expand
from softib.workloads.traces.torch_profile import of_rank

__all__ = ["Call", "Write", "all_ranks", "rank_traces", "read_chakra", "schedule_of"]

CPU, GPU, STREAM = range(3)
"""Processors of a rank: CPU for nodes with ``is_cpu_op``, GPU for its computing, STREAM for communication."""
PS_PER_US = 1_000_000
LARGEST = 1 << 62
COLLECTIVE_TAGS = 1 << 40
"""First tag of the messages of collectives; each collective has 2^16 tags. The tags of a trace's own messages are
smaller."""
STEPS = 1 << 16
MOST_OPERATIONS = 20_000_000
ALL = Grouping()
"""Grouping in which each group consists of the ranks that use its name."""


def read_chakra(path: Path, ranks: int, grouping: Grouping = ALL) -> Schedule:
    """Return the schedule of the traces to which the file ``path`` belongs. If there is only one file, each of
    ``ranks`` ranks runs it. Raises :class:`InputError`."""
    return schedule_of(str(path), all_ranks(path, rank_traces(path), ranks), grouping=grouping)


def rank_traces(path: Path) -> list[list[Node]]:
    """Return the nodes of each rank's file of the traces to which the file ``path`` belongs. Raises
    :class:`InputError`."""
    files = rank_files(path)
    if uncompressed_name(files[0]).suffix == ".sqlite":
        return report_nodes(files)
    return [_nodes(file, rank) for rank, file in enumerate(files)]


def all_ranks(path: Path, traces: Sequence[list[Node]], ranks: int) -> Sequence[list[Node]]:
    """Return the nodes of each rank. If there is only one trace, all ranks run it: those of its job if it states their
    number, otherwise ``ranks`` ranks. Raises :class:`InputError`."""
    job_ranks = traces[0][0].get("world_size")
    if len(traces) == 1 and job_ranks:
        if job_ranks > ranks:
            raise InputError(f"{path}: the trace is of a job of {job_ranks:,} ranks, but the hosts have only {ranks:,}")
        return [of_rank(path, traces[0], rank, job_ranks) for rank in range(job_ranks)]
    return list(traces) * ranks if len(traces) == 1 else traces


def _nodes(file: Path, rank: int) -> list[Node]:
    got = content(file, kind="trace")
    if got.flaw:
        raise InputError(f"{file}: {got.flaw}")
    return read_nodes(file, got.data, rank)


@dataclass
class Call:
    """The call of a collective by one rank: rows of its start and end."""

    rank: int
    node: Node
    begin: int
    end: int


@dataclass
class _Group:
    """The calls of one process group, by rank."""

    calls: dict[int, list[Call]] = field(default_factory=dict)


class Write(Protocol):
    """Interface of a library that writes collectives as operations."""

    def runs(self, collective: str) -> bool:
        """Return whether the library writes ``collective``. Others are expanded to sends and receives."""

    def write(
        self, build: Builder, together: Sequence[Call], collective: str, size: int, root: int, tag: int, label: str
    ) -> None:
        """Write one collective of the ranks in ``together``. The operations of a rank wait for row ``begin`` of its
        call, and row ``end`` waits for them. The collective may use the tags from ``tag`` to ``tag`` + 2^16."""


def schedule_of(
    name: str,
    traces: Sequence[list[Node]],
    by: Expand = expand,
    grouping: Grouping = ALL,
    library: Write | None = None,
) -> Schedule:
    """Return the schedule of each rank's nodes. ``grouping`` determines the ranks of each collective. ``library``
    writes the collectives that it runs; ``by`` expands all others. Raises :class:`InputError` with rank and node."""
    build = Builder(len(traces))
    groups: dict[GroupKey, _Group] = {}
    controlled: dict[int, bool] = {}
    for rank, nodes in enumerate(traces):
        if id(nodes) not in controlled:
            controlled[id(nodes)] = not _in_a_circle(nodes)
        _Rank(name, build, rank, groups, grouping, len(traces)).read(nodes, controlled[id(nodes)])
    tag = COLLECTIVE_TAGS
    for key, group in groups.items():
        for rank in grouping.expected(key):
            if rank not in group.calls:
                call = next(iter(group.calls.values()))[0]
                raise InputError(
                    f"{name}: rank {call.rank}, node {call.node.number}: it never ends: rank {rank} is in its "
                    "group, and never calls a collective of it"
                )
        tag = _collectives(name, build, group, tag, by, library)
    return build.schedule(name)


class _Rank:
    """Builder of the operations of one rank."""

    def __init__(
        self, name: str, build: Builder, rank: int, groups: dict[GroupKey, _Group], grouping: Grouping, ranks: int
    ):
        self.name, self.build, self.rank, self.groups = name, build, rank, groups
        self.grouping, self.ranks = grouping, ranks

    def wrong(self, node: Node, problem: str) -> InputError:
        """Return an error of ``node``."""
        return InputError(f"{self.name}: rank {self.rank}, node {node.number} ({node.name[:40]}): {problem}")

    def read(self, nodes: list[Node], controlled: bool) -> None:
        rows: dict[int, tuple[int, int]] = {}
        for node in nodes:
            if node.number in rows:
                raise self.wrong(node, "its number occurs twice")
            rows[node.number] = self._node(node)
        before = -1
        for node in nodes:
            begin, end = rows[node.number]
            for on in node.data_deps:
                if on not in rows:
                    raise self.wrong(
                        node, f"the node depends on node {on}, which is not in the trace, so it never ends"
                    )
                self.build.need(begin, rows[on][1])
            for on in node.ctrl_deps if controlled else ():
                if on in rows:
                    self.build.need(begin, rows[on][1])
            if node.get("in_order") and before >= 0:
                self.build.need(begin, before)
            before = end

    def _node(self, node: Node) -> tuple[int, int]:
        """Return the row that waits for the node's dependencies, and the row whose end is that of the node."""
        label = f"node {node.number}"
        if node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV):
            row = self._message(node, label)
            return row, row
        sized = node.get("comm_type") is not None and node.get("comm_size") is not None
        if node.type == NodeType.COMM_COLL and sized:
            begin = self.build.compute(self.rank, 0, processor=STREAM, label=label)
            end = self.build.compute(self.rank, 0, processor=STREAM, label=label)
            self._call(node, begin, end)
            return begin, end
        if not NodeType.METADATA <= node.type <= NodeType.COMM_COLL:
            raise self.wrong(node, f"type {node.type} is not a type of Chakra (1 to 7)")
        if not 0 <= node.micros < LARGEST // PS_PER_US:
            raise self.wrong(node, f"a duration of {node.micros:g} us")
        where = CPU if node.get("is_cpu_op", False) else STREAM if node.type == NodeType.COMM_COLL else GPU
        row = self.build.compute(self.rank, round(node.micros * PS_PER_US), processor=where, label=label)
        return row, row

    def _message(self, node: Node, label: str) -> int:
        sends = node.type == NodeType.COMM_SEND
        peer = self._number(node, "comm_dst" if sends else "comm_src", ANY, sends)
        size, tag = self._number(node, "comm_size", 0, True), self._number(node, "comm_tag", 0, False)
        if not (-1 <= tag < COLLECTIVE_TAGS and -1 <= peer < 1 << 31):
            raise self.wrong(node, f"tag {tag} and rank {peer}: one of them is too large")
        return self.build.message(
            Kind.SEND if sends else Kind.RECV, self.rank, peer, size, tag, processor=STREAM, label=label
        )

    def _number(self, node: Node, key: str, default: int, needed: bool) -> int:
        value = node.get(key, None if needed else default)
        if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < LARGEST:
            raise self.wrong(
                node, f"its {key} is missing" if value is None else f"{key} {value!r} is not a valid number"
            )
        return value

    def _call(self, node: Node, begin: int, end: int) -> None:
        kind, size = node.get("comm_type"), self._number(node, "comm_size", 0, True)
        if not isinstance(kind, int) or not 0 <= kind < len(COLLECTIVES):
            raise self.wrong(node, f"comm_type {kind!r} is not a collective of Chakra (0 to {len(COLLECTIVES) - 1})")
        if size < 0:
            raise self.wrong(node, f"comm_size {size} is not a size")
        try:
            key = self.grouping.key(node, self.rank, self.ranks)
        except InputError as error:
            raise self.wrong(node, str(error)) from None
        group = self.groups.setdefault(key, _Group())
        group.calls.setdefault(self.rank, []).append(Call(self.rank, node, begin, end))


def _in_a_circle(nodes: list[Node]) -> bool:
    """Return whether data and control dependencies have a cycle."""
    numbers = {node.number for node in nodes}
    needs = {node.number: {on for on in (*node.data_deps, *node.ctrl_deps) if on in numbers} for node in nodes}
    followers: dict[int, list[int]] = {}
    for number, on in needs.items():
        for one in on:
            followers.setdefault(one, []).append(number)
    left = {number: len(on) for number, on in needs.items()}
    free = [number for number, many in left.items() if not many]
    for number in free:
        for follower in followers.get(number, ()):
            left[follower] -= 1
            if not left[follower]:
                free.append(follower)
    return len(free) < len(needs)


def _collectives(name: str, build: Builder, group: _Group, tag: int, by: Expand, library: Write | None) -> int:
    """Write the collectives of one group: the k-th calls of all its ranks are one collective. Return the next free
    tag."""
    ranks = sorted(group.calls)
    many = {rank: len(calls) for rank, calls in group.calls.items()}
    most, least = max(many, key=lambda r: (many[r], -r)), min(many, key=lambda r: (many[r], r))
    if many[most] != many[least]:
        call = group.calls[most][many[least]]
        raise InputError(
            f"{name}: rank {most}, node {call.node.number}: it never ends: rank {least} has "
            f"{many[least]:,} collectives of this group, not {many[most]:,}"
        )
    operations: dict[tuple[str, int, int], Operations] = {}
    for together in zip(*(group.calls[r] for r in ranks), strict=True):
        first = together[0]
        for call in together:
            for key in ("comm_type", "comm_size"):
                if call.node.get(key) != first.node.get(key):
                    raise InputError(
                        f"{name}: rank {call.rank}, node {call.node.number}: {key} {call.node.get(key)} "
                        f"where rank {first.rank} has {first.node.get(key)}"
                    )
        key_ = (
            COLLECTIVES[first.node.get("comm_type")],
            first.node.get("comm_size"),
            int(first.node.get("comm_root", 0)),
        )
        if len(ranks) > 1 and library is not None and library.runs(key_[0]):
            root = key_[2] % len(ranks)
            library.write(build, together, key_[0], key_[1], root, tag, f"node {first.node.number}")
        else:
            if key_ not in operations:
                operations[key_] = by(key_[0], len(ranks), key_[1], key_[2])
            _write(build, together, operations[key_], tag)
        if len(build) > MOST_OPERATIONS:
            raise InputError(f"{name}: more than {MOST_OPERATIONS:,} operations with all collectives expanded")
        tag += STEPS
    return tag


def _write(build: Builder, together: Sequence[Call], ops: Operations, tag: int) -> None:
    """Write the operations of one collective: in each rank, every step waits for the previous step."""
    begins = np.searchsorted(ops.rank, np.arange(len(together) + 1)).tolist()
    columns = (ops.kind.tolist(), ops.peer.tolist(), ops.size.tolist(), ops.step.tolist())
    for place, call in enumerate(together):
        before, step = [call.begin], -1
        now: list[int] = []
        label = f"node {call.node.number}"
        for i in range(begins[place], begins[place + 1]):
            kind, peer, size, at = (c[i] for c in columns)
            if at != step and now:
                before, now = now, []
            step = at
            row = build.message(
                Kind(kind), call.rank, together[peer].rank, size, tag + at, processor=STREAM, label=label
            )
            for on in before:
                build.need(row, on)
            now.append(row)
        for on in now or before:
            build.need(call.end, on)
