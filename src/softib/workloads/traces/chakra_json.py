"""Readers of three JSON formats: that of Chakra's feeder (key ``workload_graph``), PyTorch's execution traces before
conversion by Chakra (``nodes``), and PyTorch's profiles (``traceEvents``)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from softib.errors import InputError
from softib.plain_values import load_json
from softib.workloads.traces.chakra import Node, NodeType
from softib.workloads.traces.plain_collectives import COLLECTIVES
from softib.workloads.traces.torch_profile import collective_of, profile_nodes

__all__ = ["nodes_of"]

RECORDED = "record_param_comms"
"""Name of the node that PyTorch records for a collective. Its inputs are (tensors, sequence number, group, rank,
collective, splits in, splits out, ranks): ParamCommsUtils.hpp."""
GROUP, COLLECTIVE = 2, 4
"""Positions in the inputs of :data:`RECORDED`."""


def nodes_of(path: Path, data: bytes) -> list[Node]:
    """Return the nodes in ``data``. Raises :class:`InputError` with the file and the invalid node."""
    try:
        held = load_json(data)
    except ValueError as error:
        raise InputError(f"{path}: no JSON: {str(error).splitlines()[0]}") from None
    if isinstance(held, dict) and "traceEvents" in held:
        return profile_nodes(path, held)
    rows = held.get("workload_graph", held.get("nodes")) if isinstance(held, dict) else None
    if not isinstance(rows, list):
        raise InputError(f"{path}: not a Chakra trace: it has neither workload_graph, nodes nor traceEvents")
    make = _feeder if "workload_graph" in held else _pytorch
    nodes = []
    for k, row in enumerate(rows):
        try:
            nodes.append(make(row))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise InputError(
                f"{path}: node {k + 1} of the file is not a node of Chakra ({type(error).__name__}: {error})"
            ) from None
    return nodes


def _feeder(row: dict[str, Any]) -> Node:
    """Return the node in one row of ``workload_graph``, whose keys are those of Chakra's feeder."""
    attributes = {"is_cpu_op": row["is_cpu_op"]} if "is_cpu_op" in row else {}
    for name in (
        "comm_type",
        "comm_size",
        "comm_src",
        "comm_dst",
        "comm_tag",
        "comm_root",
        "pg_name",
        "comm_group",
        "involved_dim",
    ):
        if name in row:
            attributes[name] = row[name]
    micros = float(row.get("runtime", 0))
    if not math.isfinite(micros):
        raise ValueError(f"a runtime of {micros}")
    ctrl, data = (tuple(int(v) for v in row.get(key, ())) for key in ("ctrlDeps", "data_deps"))
    return Node(int(row["Id"]), str(row["Name"]), int(row["NodeType"]), ctrl, data, micros, attributes)


def _pytorch(row: dict[str, Any]) -> Node:
    """Return the node in one row of PyTorch's execution trace. A row names the caller of the node, not its
    dependencies, and has no duration. Nodes run in the order of the file (``in_order``), except that a node does not
    wait for the end of its caller, which began before it."""
    node = Node(int(row["id"]), str(row["name"]), NodeType.COMP, attributes={"is_cpu_op": True, "in_order": True})
    if node.name == RECORDED:
        values = row["inputs"]["values"]
        name = collective_of(str(values[COLLECTIVE]))
        if name is not None:
            node.type = NodeType.COMM_COLL
            assert node.attributes is not None
            node.attributes |= {
                "comm_type": COLLECTIVES.index(name),
                "comm_size": _octets(values[0]),
                "pg_name": str(values[GROUP]),
            }
    return node


def _octets(held: Any) -> int:
    """Return the bytes of all tensors in ``held``: each is (tensor, storage, offset, elements,
    bytes of one, device)."""
    if not isinstance(held, list):
        return 0
    if len(held) == 6 and isinstance(held[5], str):
        return int(held[3]) * int(held[4])
    return sum(_octets(one) for one in held)
