"""Cabling plans: pairs of ports that are to be cabled, with length, medium and speed.

A plan comes from a cabling list (UFM-NDT CSV, a P2P sheet as CSV; :mod:`.csv`) or from any fabric
file, because an earlier scan or a generated design can also be the plan. :func:`join_plans` joins
several plans. :mod:`.match` finds the ends in a fabric. A list may contain a cable twice, once from
each end (UFM's lists do), and several lists may overlap. A row *repeats* an earlier row if it names
the same two ports, in either order. A row is in *conflict* with an earlier row if it gives one of
that row's ports another peer.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import UnknownFormat
from softib.fabric.columns import CableMedium
from softib.fabric.formats.base import Problem
from softib.fabric.formats.cabling.encodings import text_of
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.node_description import normal_label, plain_name, portnum_of_label
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo
from softib.input_files import content, head, shown_name
from softib.whole_files import write_text

__all__ = ["CablingPlan", "join_plans", "mark_repeats", "read_plan", "write_plan"]


@dataclass
class CablingPlan:
    """One row per cable. Columns of shape ``[n, 2]`` hold both ends in the order of the file.

    ``portnum`` is the number in the label (:func:`.port_label.portnum_of_label`), or 0 if the label
    can be resolved only with the fabric. It is exact if the plan was read from a fabric file.
    Unknown values are stored as empty text, u 0, length NaN, medium ``CableMedium.UNKNOWN``, speed
    and lanes 0, line 0, guid 0. ``repeats`` is the earlier row of the same cable, -1 = none.
    ``conflict`` marks rows with a port to which an earlier row connects another peer; such rows are
    also problems. ``file`` is the row's index into ``files``.
    """

    format: str
    path: str
    node: np.ndarray  # str[n, 2]
    label: np.ndarray  # str[n, 2]
    portnum: np.ndarray  # int16[n, 2]
    rack: np.ndarray  # str[n, 2]
    u: np.ndarray  # int16[n, 2]
    length_m: np.ndarray  # float32[n]
    medium: np.ndarray  # uint8[n]
    speed: np.ndarray  # uint8[n], codes of iba.rates
    lanes: np.ndarray  # uint8[n]
    purpose: np.ndarray  # str[n], the LinkType of UFM
    line: np.ndarray  # int32[n]
    node_guid: np.ndarray  # uint64[n, 2]
    conflict: np.ndarray  # bool[n]
    repeats: np.ndarray  # int32[n]
    file: np.ndarray  # int16[n]
    files: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes on parts of the file that are hidden or not to be built. Each note says whether softib
    reads the part."""
    left_out: list[dict[str, Any]] = field(default_factory=list)
    """Rows that are not part of the plan, as dicts for :meth:`from_rows`: cancelled cables (with
    their ``status``), and rows with an unreadable cell (that cell is empty)."""

    def __len__(self) -> int:
        return len(self.line)

    @classmethod
    def from_rows(cls, rows: list[dict[str, Any]], format: str, path: str, problems: list[Problem]) -> CablingPlan:
        """Build a plan from rows. Each row is a dict with ``node``, ``label`` and ``rack`` (pairs
        of texts), ``u`` (a pair of numbers), and the other columns."""
        n = len(rows)

        def column(name: str, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
            return np.array([r[name] for r in rows], dtype).reshape(shape) if n else np.zeros(shape, dtype)

        label = column("label", str, (n, 2))
        parsed = [portnum_of_label(x) for x in label.ravel()]
        portnum = np.array([0 if p.card else p.portnum for p in parsed], np.int16).reshape(n, 2)
        return cls(
            format=format,
            path=path,
            node=column("node", str, (n, 2)),
            label=label,
            portnum=portnum,
            rack=column("rack", str, (n, 2)),
            u=column("u", np.int16, (n, 2)),
            length_m=column("length_m", np.float32, (n,)),
            medium=column("medium", np.uint8, (n,)),
            speed=column("speed", np.uint8, (n,)),
            lanes=column("lanes", np.uint8, (n,)),
            purpose=column("purpose", str, (n,)),
            line=column("line", np.int32, (n,)),
            node_guid=np.zeros((n, 2), np.uint64),
            conflict=np.zeros(n, bool),
            repeats=np.full(n, -1, np.int32),
            file=np.zeros(n, np.int16),
            files=(path,),
            problems=problems,
        )

    @classmethod
    def from_fabric(cls, fabric: Fabric, problems: list[Problem] | None = None) -> CablingPlan:
        """Build a plan of every cable whose two ends are known, in the fabric's order."""
        cables = np.flatnonzero((fabric.cable_port >= 0).all(axis=1))
        ports = fabric.cable_port[cables]
        nodes = fabric.port_node[ports]
        names = np.array(fabric.node_names(), str) if fabric.sizes.nodes else np.zeros(0, str)
        numbers = fabric.port_num[ports].astype(np.int16)
        labels = [
            fabric.port_label.get(int(p), str(int(n))) for p, n in zip(ports.ravel(), numbers.ravel(), strict=True)
        ]
        codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)
        width = PortInfo.link_width_active.get(fabric.port_info)[ports[:, 0]]
        lanes = np.array([LANES_BY_BIT.get(int(w), 0) for w in width], np.uint8)
        n = len(cables)
        speeds_known = "speeds" in fabric.source.records or fabric.source.format == "generated"
        return cls(
            format="fabric",
            path=fabric.source.path,
            node=names[nodes].reshape(n, 2),
            label=np.array(labels, str).reshape(n, 2),
            portnum=numbers,
            rack=np.full((n, 2), "", str),
            u=np.zeros((n, 2), np.int16),
            length_m=fabric.cable_length_m[cables],
            medium=fabric.cable_medium[cables],
            speed=codes[ports[:, 0]] if speeds_known else np.zeros(n, np.uint8),
            lanes=lanes if speeds_known else np.zeros(n, np.uint8),
            purpose=np.full(n, "", str),
            line=np.zeros(n, np.int32),
            node_guid=fabric.node_guid[nodes],
            conflict=np.zeros(n, bool),
            repeats=np.full(n, -1, np.int32),
            file=np.zeros(n, np.int16),
            files=(fabric.source.path,),
            problems=list(problems or ()),
        )

    def end_name(self, row: int, end: int) -> str:
        """Return the name of an end for messages, for example ``leaf-3 Port 40``."""
        return f"{self.node[row, end]} {self.label[row, end]}"

    def row_name(self, row: int) -> str:
        """Return the name of a row for messages: ``line 7``, with the file if there are several.
        Rows of a fabric have no line, so their name is empty."""
        line = int(self.line[row])
        if len(self.files) == 1:
            return f"line {line}" if line else ""
        file = self.files[int(self.file[row])]
        return f"{file}:{line}" if line else file


def mark_repeats(plan: CablingPlan) -> dict[int, Problem]:
    """Fill ``repeats`` and ``conflict`` by comparing names only. Return the reason for each
    conflict. Devices with equal names are distinguished by rack, or by GUID if the plan was read
    from a fabric file. :mod:`softib.diags.cabling_plan.compare` repeats the search by port, because
    one port may have several names.
    """
    used: dict[tuple[str, str, str], int] = {}
    cables: dict[frozenset[tuple[str, str, str]], int] = {}
    conflicts: dict[int, Problem] = {}
    texts = zip(plan.node.tolist(), plan.rack.tolist(), plan.label.tolist(), plan.node_guid.tolist(), strict=True)
    for row, texts_of_row in enumerate(texts):
        ends = [
            (f"{guid:#x}" if guid else plain_name(node), rack.casefold(), normal_label(label))
            for node, rack, label, guid in zip(*texts_of_row, strict=True)
        ]
        if ends[0] == ends[1]:
            why = f"both ends are {plan.end_name(row, 0)}; a cable has two ends"
        else:
            first_row = cables.setdefault(frozenset(ends), row)
            if first_row != row:
                plan.repeats[row] = first_row
                continue
            clash = next((e for e in (0, 1) if ends[e] in used), -1)
            earlier = plan.row_name(used[ends[clash]]) if clash >= 0 else ""
            why = f"{plan.end_name(row, clash)} already has a cable at {earlier}" if earlier else ""
            for end in ends:
                used.setdefault(end, row)
        if why:
            plan.conflict[row] = True
            conflicts[row] = Problem(plan.files[int(plan.file[row])], int(plan.line[row]), why)
    return conflicts


def join_plans(plans: Sequence[CablingPlan]) -> CablingPlan:
    """Join all rows of ``plans`` in their order. Find repeats and conflicts between the plans."""
    if len(plans) == 1:
        return plans[0]
    columns: dict[str, Any] = {}
    for f in fields(CablingPlan):
        values = [getattr(p, f.name) for p in plans]
        if isinstance(values[0], np.ndarray):
            columns[f.name] = np.concatenate(values)
    first_file = np.cumsum([0, *(len(p.files) for p in plans)])
    columns["file"] = np.concatenate([p.file + at for p, at in zip(plans, first_file, strict=False)]).astype(np.int16)
    columns["repeats"] = np.full(len(columns["line"]), -1, np.int32)
    conflict_before = columns["conflict"].copy()
    joined = CablingPlan(
        format="+".join(dict.fromkeys(p.format for p in plans)),
        path=", ".join(dict.fromkeys(p.path for p in plans)),
        files=tuple(x for p in plans for x in p.files),
        problems=[q for p in plans for q in p.problems],
        notes=[f"{p.path}: {note}" for p in plans for note in p.notes],
        left_out=[row for p in plans for row in p.left_out],
        **columns,
    )
    joined.problems += [problem for row, problem in mark_repeats(joined).items() if not conflict_before[row]]
    return joined


MIN_CELLS = 4
"""Minimum number of cells in a row of a list: two devices and two ports."""


def read_plan(path: str | Path, **options: Any) -> CablingPlan:
    """Read a cabling list, or any fabric file as a plan; the format is detected from the content.
    ``options`` are passed to ``registry.read``. Raises :class:`UnreadableFile` if no row can be
    read.
    """
    from softib.fabric.formats.cabling import csv
    from softib.fabric.formats.cabling.sheet import is_workbook

    start = head(path, 1 << 16)
    if is_workbook(start):
        return csv.parse_workbook(content(path, kind="workbook").data, shown_name(path))
    text = text_of(start, shown_name(path))
    if csv.looks_like_cabling(text):
        got = content(path)
        plan = csv.parse_cabling(text_of(got.data, shown_name(path)), shown_name(path))
        if got.flaw:
            plan.problems.append(Problem(shown_name(path), got.data.count(b"\n") + 1, got.flaw))
        return plan
    from softib.fabric.formats import registry

    try:
        result = registry.read(path, **options)
    except UnknownFormat:
        if any(len(cells) >= MIN_CELLS for _, cells, _ in csv.sheets_of_text(text).rows):
            csv.parse_cabling(text, shown_name(path))  # raises an error that lists the headings
        raise
    plan = CablingPlan.from_fabric(result.fabric, result.problems)
    plan.path, plan.files = shown_name(path), (shown_name(path),)
    return plan


P2P_COLUMNS = (
    "A-Rack",
    "A-U",
    "A-Node",
    "A-Port",
    "Z-Rack",
    "Z-U",
    "Z-Node",
    "Z-Port",
    "Cable Length",
    "Cable Type",
    "Speed",
)


def write_plan(plan: CablingPlan, path: str | Path) -> None:
    """Write the plan as a P2P sheet (CSV, UTF-8). :func:`read_plan` reads the same rows from it.
    Raises :class:`InputError` if the path cannot be written.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(P2P_COLUMNS)
    for i in range(len(plan)):
        ends: list[str] = []
        for e in (0, 1):
            u = int(plan.u[i, e])
            ends += [plan.rack[i, e], f"U{u}" if u else "", plan.node[i, e], plan.label[i, e]]
        length = "" if np.isnan(plan.length_m[i]) else f"{float(plan.length_m[i]):g}"
        medium = CableMedium.NAMES[int(plan.medium[i])] if plan.medium[i] else ""
        lanes = f" {int(plan.lanes[i])}x" if plan.lanes[i] else ""
        speed = SPEED_BY_CODE[int(plan.speed[i])].name + lanes if plan.speed[i] else ""
        writer.writerow([*ends, length, medium, speed])
    write_text(path, out.getvalue())
