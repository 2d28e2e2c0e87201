"""What leads from one fabric to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from softib.api.shown import Suggests, html_table, totals
from softib.api.table import Table

if TYPE_CHECKING:
    from softib.api.fabric import Fabric
    from softib.fabric.diff import Change

__all__ = ["Changes"]


class Changes(Suggests, Sequence["Change"]):
    """What leads from one fabric to another; empty = no difference. Each has ``kind``, ``where``,
    ``before``, ``after``."""

    def __init__(self, found: Sequence[Change], before: Fabric, after: Fabric):
        self._found, self.before, self.after = list(found), before, after

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Changes: ...
    def __getitem__(self, index: int | slice) -> Change | Changes:
        return self._with(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Change]:
        return iter(self._found)

    def of_kind(self, kind: str) -> Changes:
        """Those of one kind, such as ``cable-moved``. Raises :class:`UnknownName`."""
        from softib.errors import UnknownName
        from softib.fabric.diff import KINDS

        if kind not in KINDS:
            raise UnknownName("kind of change", kind, KINDS)
        return self._with([c for c in self._found if c.kind == kind])

    def to_json(self) -> dict[str, Any]:
        """As ``softib diff --json`` prints it (docs/schemas/diff.schema.json)."""
        from softib.render.as_json import diff_json

        problems = (*self.before.problems, *self.after.problems)
        return diff_json(self.before.source, self.after.source, self._found, problems)

    def lines(self) -> list[str]:
        """As ``softib diff`` prints them: the cables of a node that is gone or new are a number in
        its line."""
        from softib.fabric.diff import lines_of

        return lines_of(self._found)

    def _with(self, found: Sequence[Change]) -> Changes:
        return Changes(found, self.before, self.after)

    def table(self) -> Table:
        """One row a change: kind, where, before, after, message."""
        return Table(
            {
                "kind": [c.kind for c in self._found],
                "where": [", ".join(c.where) for c in self._found],
                "before": [c.before for c in self._found],
                "after": [c.after for c in self._found],
                "message": [c.message for c in self._found],
            }
        )

    def __repr__(self) -> str:
        return f"<Changes: {totals([c.kind for c in self._found]) or 'none'}>"

    def _repr_html_(self) -> str:
        rows = ((c.kind, ", ".join(c.where), c.message) for c in self._found)
        return html_table(("kind", "where", "what"), rows) if self._found else "<p>no difference</p>"
