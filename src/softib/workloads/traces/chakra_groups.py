"""The ranks that take part in a collective of a Chakra trace. A node names a process group, whose members are in a
file, or dimensions of a logical topology; both as in ASTRA-sim's workload layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError
from softib.foreign_text import shown
from softib.input_files import json_document
from softib.plural import counted

if TYPE_CHECKING:
    from softib.workloads.traces.chakra import Node

__all__ = ["GroupKey", "Grouping", "grouping_of", "members_in"]

GroupKey = tuple[Any, ...]
NAMES = ("pg_name", "comm_group")
"""Attributes with the name of a group; the second may also list its ranks."""
UNREAD = ("involved_dims", "involve_dims", "comm_group_id", "process_group", "pg_ranks", "group_ranks", "ranks")
"""Attributes with which other tools choose the ranks of a collective. They are not supported here."""
_DIMS = re.compile(r"\d{1,6}(?:x\d{1,6})*")


@dataclass(frozen=True)
class Grouping:
    """``members``: name of a group → its ranks (a group that is not listed consists of the ranks that use its name).
    ``file``: the file that lists them. ``dims``: sizes of the dimensions of the ranks, innermost first."""

    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    file: str = ""
    dims: tuple[int, ...] = ()

    def key(self, node: Node, rank: int, ranks: int) -> GroupKey:
        """Return the key that all calls of one collective have in common. Raises :class:`InputError`
        for an attribute that chooses members in an unsupported way."""
        attributes = node.attributes or {}
        for name in UNREAD:
            if name in attributes:
                raise InputError(f"{name} chooses ranks, but is not supported; use pg_name, comm_group or involved_dim")
        return (self._group(attributes, rank), *self._place(attributes.get("involved_dim"), rank, ranks))

    def expected(self, key: GroupKey) -> tuple[int, ...]:
        """Return the ranks that must call the collective; empty if these are the ranks that use the group's name."""
        return key[0] if isinstance(key[0], tuple) else self.members.get(key[0], ())

    def _group(self, attributes: Mapping[str, Any], rank: int) -> str | tuple[int, ...]:
        given = [attributes[name] for name in NAMES if name in attributes and attributes[name] != ""]
        if len(given) > 1 and str(given[0]) != str(given[1]):
            raise InputError(f"pg_name {shown(str(given[0]))!r} and comm_group {shown(str(given[1]))!r} differ")
        if not given:
            return ""
        if isinstance(given[0], list):
            group = tuple(sorted(set(given[0])))
            if rank not in group:
                raise InputError(f"comm_group {given[0]} does not contain the rank itself")
            return group
        name = str(given[0])
        if self.members and name not in self.members:
            raise InputError(f"group {shown(name)!r} is not in {self.file}, which has {', '.join(self.members)}")
        if self.members and rank not in self.members[name]:
            raise InputError(f"group {shown(name)!r} of {self.file} does not have this rank")
        return name

    def _place(self, involved: Any, rank: int, ranks: int) -> tuple[int, ...]:
        """Return the coordinates of ``rank`` in the dimensions that are not involved."""
        if involved is None:
            return ()
        if not isinstance(involved, list) or not all(v in (0, 1) for v in involved):
            raise InputError(f"involved_dim {involved!r} is not a list of booleans")
        if all(involved):  # all dimensions involved: all ranks
            return ()
        if not self.dims:
            raise InputError(
                f"involved_dim {[bool(v) for v in involved]} chooses some dimensions; add dims=4x2 (sizes, "
                "innermost first)"
            )
        if prod(self.dims) != ranks or len(involved) < len(self.dims):
            raise InputError(
                f"dims {'x'.join(map(str, self.dims))} for {counted(ranks, 'rank')} and involved_dim of "
                f"{counted(len(involved), 'dimension')}: use one size for each dimension; "
                "their product is the number of ranks"
            )
        at, left = [], rank
        for size in self.dims:
            left, coordinate = divmod(left, size)
            at.append(coordinate)
        return tuple(-1 if used else c for used, c in zip(involved, at, strict=False))


def grouping_of(trace: Path, groups: str | None, dims: str | None) -> Grouping:
    """Return the grouping from ``groups`` (a file) and ``dims`` (``4x2``) of a job. Without ``groups``
    the file ``name.json`` in the folder of the traces ``name.RANK.et`` is used, if it lists groups.
    Raises :class:`InputError`."""
    sizes: tuple[int, ...] = ()
    if dims and (not _DIMS.fullmatch(dims) or not prod(sizes := tuple(map(int, dims.split("x"))))):
        raise InputError(f"dims {shown(dims)!r}: use sizes, innermost first, for example 4x2")
    path = Path(groups) if groups else _sibling(trace)
    if path is None:
        return Grouping(dims=sizes)
    return Grouping(members_in(path), str(path), sizes)


def _sibling(trace: Path) -> Path | None:
    """Return the path of ``name.json``, if this file contains a mapping of lists."""
    from softib.workloads.traces.chakra import RANK_FILE

    hit = RANK_FILE.fullmatch(trace.name)
    stem = hit["stem"] if hit else trace.name
    path = trace.with_name(f"{stem}.json")
    if trace.suffix == ".json" or not path.is_file():
        return None
    try:
        held = json_document(path, "file of groups", "")
    except InputError:
        return None
    return path if isinstance(held, dict) and held and all(isinstance(v, list) for v in held.values()) else None


def members_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Return name of a group → its ranks, from the file ``path`` with content like ``{"0": [0, 1], …}``. Raises
    :class:`InputError`."""
    held = json_document(path, "file of groups", '{"0": [0, 1, 2, 3], "1": [4, 5, 6, 7]}')
    groups: dict[str, tuple[int, ...]] = {}
    for name, ranks in held.items() if isinstance(held, dict) else ():
        if not isinstance(ranks, list) or not ranks or not all(isinstance(r, int) and 0 <= r < 1 << 31 for r in ranks):
            raise InputError(f"{path}: group {shown(str(name))!r} is not a list of ranks")
        if len(set(ranks)) < len(ranks):
            raise InputError(f"{path}: group {shown(str(name))!r} has a rank twice")
        groups[str(name)] = tuple(sorted(ranks))
    if not groups:
        raise InputError(f"{path}: no groups; a file of groups is " + '{"0": [0, 1, 2, 3], "1": [4, 5, 6, 7]}')
    return groups
