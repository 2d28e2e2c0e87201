"""Chakra execution traces (MLCommons): a file of nodes for each rank, protobuf (``.et``) or JSON.

A file is a GlobalMetadata message and the Node messages of one rank, each after its length.
Source: ``schema/protobuf/et_def.proto`` of MLCommons Chakra (field numbers below), and the
attributes written by its converter and read by ASTRA-sim's workload layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from softib.errors import InputError
from softib.input_files import uncompressed_name
from softib.workloads.traces.protobuf_wire import Value, delimited, double_of, fields, float_of, signed, varints

__all__ = ["Node", "NodeType", "node_of", "rank_files", "read_nodes"]

RANK_FILE = re.compile(r"(?P<stem>.+)\.(?P<rank>\d+)(?P<suffix>\.et|\.json|\.sqlite)(?P<packed>\.gz)?")


class NodeType(IntEnum):
    """Type of a node: NodeType in et_def.proto."""

    INVALID, METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = range(8)


@dataclass
class Node:
    """One operation of a rank. ``micros``: recorded duration in microseconds. ``attributes``: only those whose value is
    a number, boolean, text, or list of integers or booleans. ``data_deps`` and ``ctrl_deps``: numbers of the nodes that
    must end before this node begins."""

    number: int = 0
    name: str = ""
    type: int = 0
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    micros: float = 0
    attributes: dict[str, Any] | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute ``name``."""
        return (self.attributes or {}).get(name, default)


NUMBER, NAME, TYPE, CTRL_DEPS, DATA_DEPS, START_MICROS, MICROS, ATTRIBUTE = 1, 2, 3, 4, 5, 6, 7, 10
"""Field numbers of Node in et_def.proto. (Fields 8 and 9 describe tensors, which a run does not use.)"""
ATTRIBUTE_NAME = 1


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _fixed(value: Value) -> int:
    return int.from_bytes(value, "little") if isinstance(value, bytes) else value


VALUES: dict[int, Callable[[Any], Any]] = {
    3: double_of,
    5: float_of,
    7: signed,
    9: signed,
    11: int,
    13: int,
    15: _zigzag,
    17: _zigzag,
    19: _fixed,
    21: _fixed,
    23: _fixed,
    25: _fixed,
    27: bool,
    29: lambda v: bytes(v).decode("utf-8", "replace"),
}
"""Field numbers of AttributeProto in et_def.proto that hold one value → conversion of the value."""
LISTS: dict[int, Callable[[Any], Any]] = {8: signed, 10: signed, 12: int, 14: int, 28: bool}
"""Field numbers that hold a list of integers or booleans → conversion of one value. Other lists, and bytes, are
ignored."""


def rank_files(path: Path) -> list[Path]:
    """Return the files of all ranks, in order of rank: the files ``name.RANK.et`` in the folder of ``path``, where
    ``path`` is one of them or ``name``. A file without a number is the trace of rank 0, the only rank. Raises
    :class:`InputError` if a rank in between is missing.
    """
    hit = RANK_FILE.fullmatch(path.name)
    if hit is None and path.is_file():
        return [path]
    stem, suffix = (hit["stem"], hit["suffix"] + (hit["packed"] or "")) if hit else (path.name, ".et")
    by_rank: dict[int, Path] = {}
    for other in path.parent.glob("*" + suffix) if path.parent.is_dir() else ():
        one = RANK_FILE.fullmatch(other.name)
        if one and one["stem"] == stem:
            by_rank[int(one["rank"])] = other
    if not by_rank or (hit and not path.is_file()):
        raise InputError(f"{path}: cannot read: no such file, and no {path.name}.0.et")
    if len(by_rank) > 1:
        for rank in range(max(by_rank)):
            if rank not in by_rank:
                raise InputError(
                    f"{path.parent / stem}: rank {rank} of {max(by_rank) + 1:,} has no file {stem}.{rank}{suffix}"
                )
    return [by_rank[rank] for rank in sorted(by_rank)]


def read_nodes(path: Path, data: bytes, rank: int) -> list[Node]:
    """Return the nodes of one rank, in the order of the file. Raises :class:`InputError` with file,
    rank and node."""
    if uncompressed_name(path).suffix == ".json":
        from softib.workloads.traces.chakra_json import nodes_of

        nodes = nodes_of(path, data)
    else:
        nodes = _nodes(path, data, rank)
    if not nodes:
        raise InputError(f"{path}: no node: not a Chakra trace, or of a rank without operations")
    return nodes


def _nodes(path: Path, data: bytes, rank: int) -> list[Node]:
    nodes: list[Node] = []
    at = "its first message"
    try:
        for k, message in enumerate(delimited(data)):
            at = f"rank {rank}, message {k} of the file"
            if k:
                nodes.append(_node(message))
            else:
                list(fields(message))
    except (ValueError, TypeError) as error:
        reason = str(error) if isinstance(error, ValueError) else "has a field of a type that Chakra does not have"
        raise InputError(f"{path}: not a Chakra trace: {at} {reason}") from None
    return nodes


def node_of(message: Any) -> Node:
    """Return the node of a protobuf message of Chakra's class Node, created with any library. Raises
    :class:`InputError`."""
    try:
        return _node(message.SerializeToString())
    except (AttributeError, ValueError, TypeError):
        raise InputError(f"{type(message).__name__} is not a Node of a Chakra trace") from None


def _node(message: bytes) -> Node:
    node = Node(attributes={})
    ctrl: list[int] = []
    data: list[int] = []
    for number, value in fields(message):
        if number == CTRL_DEPS:
            ctrl += varints(value)
        elif number == DATA_DEPS:
            data += varints(value)
        elif number == ATTRIBUTE:
            _attribute(node, value)
        elif number == NAME:
            node.name = _octets(value).decode("utf-8", "replace")
        elif number in (NUMBER, TYPE, MICROS):
            if not isinstance(value, int):
                raise TypeError
            setattr(node, {NUMBER: "number", TYPE: "type", MICROS: "micros"}[number], value)
    node.ctrl_deps, node.data_deps = tuple(ctrl), tuple(data)
    return node


def _attribute(node: Node, message: Value) -> None:
    name, held = "", None
    for number, value in fields(_octets(message)):
        if number == ATTRIBUTE_NAME:
            name = _octets(value).decode("utf-8", "replace")
        elif number in VALUES:
            held = VALUES[number](value)
        elif number in LISTS:
            values = (varints(packed) for one, packed in fields(_octets(value)) if one == 1)
            held = [LISTS[number](v) for several in values for v in several]
    assert node.attributes is not None
    if name and held is not None:
        node.attributes[name] = held


def _octets(value: Value) -> bytes:
    if isinstance(value, int):
        raise TypeError
    return value
