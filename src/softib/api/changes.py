"""What leads from one fabric to another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softib.api.table import Rows
from softib.fabric.diff import KINDS, Change
from softib.fabric.formats.base import Problem
from softib.result import Result, also, key

if TYPE_CHECKING:
    from softib.api.fabric import Fabric

__all__ = ["Changes"]


@dataclass(eq=False, repr=False)
class Changes(Rows[Change], Result):
    """What leads from one fabric to another; empty = no difference. Each has ``kind``, ``where``,
    ``before``, ``after``."""

    document = "diff"
    row, by = Change, "kind"

    before: Fabric = field(metadata=key("a", json=lambda fabric: fabric.source, type=str))
    after: Fabric = field(metadata=key("b", json=lambda fabric: fabric.source, type=str))
    rows: list[Change] = field(metadata=key("changes"))

    @property
    @also(before="rows")
    def equal(self) -> bool:
        """No difference."""
        return not self.rows

    @property
    @also()
    def problems(self) -> tuple[Problem, ...]:
        """Records of both sources that could not be read."""
        return (*self.before.problems, *self.after.problems)

    def of_kind(self, kind: str) -> Changes:
        """Those of one kind, such as ``cable-moved``. Raises :class:`UnknownName`."""
        from softib.errors import UnknownName

        if kind not in KINDS:
            raise UnknownName("kind of change", kind, KINDS)
        return self._with([c for c in self.rows if c.kind == kind])
