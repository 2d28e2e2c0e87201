"""Writes the columns of a .db_csv section into the fabric, at the nodes and ports that its rows
name."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.formats.base import Problems
from softib.fabric.formats.ibdiagnet.csv_sections import NONE, Section
from softib.fabric.formats.text import shown
from softib.fabric.model import Fabric

__all__ = ["Legal", "SectionWriter"]

Legal = tuple[np.ndarray, np.ndarray | bool]
"""What a device can read in a component: bool[2**bits] by value, and the rows (bool[rows], or all)
that can read 0 too."""


class SectionWriter:
    """Finds rows' nodes and ports in ``f`` and writes their columns. What else a section holds
    lands in ``records`` (names of ``Source.records``) and ``extra`` (of the :class:`ReadResult`).
    """

    def __init__(self, f: Fabric, problems: Problems):
        self.f, self.problems = f, problems
        self.records: set[str] = set()
        self.extra: dict[str, Any] = {}
        self.order = np.argsort(f.node_guid, kind="stable")
        self.sorted_guids = f.node_guid[self.order]

    def find(self, guid: np.ndarray) -> np.ndarray:
        """Nodes of these NodeGUIDs, -1 where there is none."""
        at = np.minimum(np.searchsorted(self.sorted_guids, guid), len(self.sorted_guids) - 1)
        return np.where(self.sorted_guids[at] == guid, self.order[at], -1).astype(np.int64)

    def nodes(self, s: Section, guid_name: str = "NodeGUID") -> tuple[np.ndarray, np.ndarray]:
        """(rows of the section, their nodes); rows of unknown nodes are problems."""
        if not s.has(guid_name) or not s.rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        guid = s.column(guid_name, self.problems, np.uint64)
        node = self.find(guid)
        for i in np.flatnonzero(node < 0):
            self.problems.add(s.lines[int(i)], f"{s.name}: no node of GUID {int(guid[i]):#018x}")
        return np.flatnonzero(node >= 0), node[node >= 0]

    def ports(self, s: Section) -> tuple[np.ndarray, np.ndarray]:
        """(rows of the section, their ports); rows of ports that the node has not are problems."""
        num_name = next((n for n in ("PortNum", "PortNumber", "LocalPortNum") if s.has(n)), None)
        rows, node = self.nodes(s)
        if not len(rows) or num_name is None:
            return rows[:0], node[:0]
        num = s.column(num_name, self.problems)[rows]
        good = (num >= np.where(self.f.is_switch[node], 0, 1)) & (num <= self.f.node_nports[node])
        for i in np.flatnonzero(~good):
            self.problems.add(
                s.lines[int(rows[i])], f"{s.name}: {shown(self.f.node_name(int(node[i])))} has no port {int(num[i])}"
            )
        return rows[good], (self.f.node_base[node[good]] + num[good]).astype(np.int64)

    def write(
        self,
        s: Section,
        name: str,
        target: Any,
        image: np.ndarray,
        rows: np.ndarray,
        at: np.ndarray,
        legal: Legal | None = None,
    ) -> None:
        """Column ``name`` into the component ``target`` of the wire images ``image[at]``.

        ``legal`` says what a device can read there: of other values the image keeps what it has,
        and a problem says so. They are problems too where they do not fit in the component.
        """
        value = s.column(name, self.problems, np.uint64 if target.bits > 63 else np.int64)[rows]
        fits = (value <= target.mask) & (value >= 0)
        for i in np.flatnonzero(~fits & (value != NONE)):
            self.problems.add(
                s.lines[int(rows[i])], f"{s.name}: {name} {int(value[i])} does not fit in {target.bits} bits"
            )
        good = fits
        if legal is not None:
            values, zero = legal
            good = fits & (values[np.where(fits, value, 0)] | ((value == 0) & zero))
            for i in np.flatnonzero(fits & ~good):
                kept = int(target.get(image[at[i]]))
                self.problems.add(
                    s.lines[int(rows[i])], f"{s.name}: no device reads {name} {int(value[i])}; {kept} stands in"
                )
        target.set(image, value[good].astype(np.uint64), where=at[good])
