"""A cabling plan on a fabric: the ports that its rows name, what is plugged there, and the words
for both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from softib.diags.cabling_plan.result import PlannedCable
from softib.diags.cabling_plan.rows import PlanRows
from softib.diags.finding import Finding
from softib.diags.view import FabricView
from softib.fabric.formats.cabling.match import match_plan
from softib.fabric.formats.cabling.plan import CablingPlan

__all__ = ["PlanOnFabric"]


class PlanOnFabric:
    """``port``, ``peer`` int64[rows, 2]: the port that each end names and the one that its cable
    leads to (-1 = none).

    ``table`` and ``findings`` collect what the judges of rows say, by :meth:`add` and by hand.
    """

    def __init__(self, view: FabricView, plan: CablingPlan):
        self.view, self.plan = view, plan
        self.matched = match_plan(plan, view.fabric)
        self.port = self.matched.port.astype(np.int64)
        self.peer = np.where(self.port >= 0, view.fabric.port_peer[np.maximum(self.port, 0)], -1)
        self.rows = PlanRows(plan, self.port)
        self.table: list[PlannedCable] = []
        self.findings: list[Finding] = []

    def names(self, row: int) -> tuple[str, str]:
        """Both planned ports, as :meth:`name` has them."""
        a, b = (self.name(row, end) for end in (0, 1))
        return a, b

    def name(self, row: int, end: int) -> str:
        """``node[port]`` of the fabric where the end is known, else as the plan spells it."""
        port = int(self.port[row, end])
        return str(self.view.location(port)) if port >= 0 else self.plan.end_name(row, end)

    def _node(self, row: int, end: int) -> str:
        node = int(self.matched.node[row, end])
        return str(self.view.node_location(node)) if node >= 0 else str(self.plan.node[row, end])

    def locations(self, rows: Iterable[int]) -> list[Any]:
        """Places in the fabric of the known ports of ``rows``."""
        return [self.view.location(int(p)) for r in rows for p in self.port[r] if p >= 0]

    def found(self, row: int) -> tuple[str, ...]:
        """What the planned ports really lead to."""
        out = []
        for end in (0, 1):
            peer_port = int(self.peer[row, end])
            if peer_port >= 0:
                out.append(f"{self.name(row, end)} ↔ {self.view.location(peer_port)}")
        return tuple(out)

    def evidence(self, row: int) -> dict[str, Any]:
        """Line of the row, and its file where there are several."""
        evidence = {"line": int(self.plan.line[row])}
        return {"file": self.plan.files[int(self.plan.file[row])], **evidence} if len(self.plan.files) > 1 else evidence

    def add(self, status: str, row: int, note: str = "", reason: str = "") -> None:
        """Add a line to the table; ``status`` is one of :data:`.result.STATUSES`."""
        found = self.names(row) if status in ("matched", "wrong-speed", "wrong-length") else self.found(row)
        self.table.append(
            PlannedCable(
                status,
                self.plan.files[int(self.plan.file[row])],
                int(self.plan.line[row]),
                self.names(row),
                found,
                note,
                reason,
                tuple(self.plan.row_name(r) for r in self.rows.repeats.get(row, ())),
                tuple(self._node(row, end) for end in (0, 1)),
            )
        )
