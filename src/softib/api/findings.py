"""What a check found: filters, tables, and the formats of other programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from softib.api.shown import Suggests, html_table, totals
from softib.api.table import Table
from softib.plural import counted

if TYPE_CHECKING:
    from softib.analysis import model
    from softib.api.graph import Drawing
    from softib.diags.finding import Finding
    from softib.fabric.formats.base import Problem

__all__ = ["Findings", "checked_codes", "severity_named"]


class Findings(Suggests, Sequence["Finding"]):
    """What a check found, worst first; empty is good news.

    Each has ``code``, ``severity``, ``where``, ``message``, ``evidence`` and ``advice``. A filter
    gives other findings and leaves these as they are.
    """

    def __init__(self, report: model.Report, found: Iterable[Finding] | None = None):
        self._report = report
        self._found = sorted(report.findings if found is None else found, key=lambda f: -f.severity)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Finding | Findings:
        return self._with(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found)

    @property
    def good(self) -> bool:
        """Nothing but information: what ``softib check`` ends with 0 for."""
        return not self.at_least("warning")

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Records of the source, the plan or the tables that could not be read: file, line, reason."""
        return tuple(self._report.problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """Steps that could not run, and why; what of a baseline is not shown."""
        return tuple(self._report.notes)

    def at_least(self, severity: str) -> Findings:
        """Those of ``info``, ``warning`` or ``error`` and worse. Raises :class:`UnknownName`."""
        least = severity_named(severity)
        return self._with([f for f in self._found if f.severity >= least])

    def of(self, *codes: str) -> Findings:
        """Those of these codes. Raises :class:`UnknownName` for a code that no check has."""
        checked_codes(codes)
        return self._with([f for f in self._found if f.code in codes])

    def without(self, *codes: str) -> Findings:
        """All but those of these codes. Raises :class:`UnknownName` for a code that no check has."""
        checked_codes(codes)
        return self._with([f for f in self._found if f.code not in codes])

    def new_since(self, baseline: str | os.PathLike[str]) -> Findings:
        """Those that the file ``baseline`` of :meth:`save_baseline` does not know; a note says how
        many it knows, and how many of those are resolved. Raises :class:`InputError` for a file
        that is no baseline."""
        from softib.diags.baseline import new_findings, read_baseline

        path = os.fspath(baseline)
        new, same, resolved = new_findings(self._found, read_baseline(path))
        note = f"{counted(same, 'known finding')} of {path} not shown"
        note += f"; {resolved} of it {'is' if resolved == 1 else 'are'} resolved" if resolved else ""
        report = replace(self._report, notes=[*self._report.notes, note])
        return Findings(report, new)

    def save_baseline(self, path: str | os.PathLike[str]) -> None:
        """Write these as known, for :meth:`new_since`. Raises :class:`InputError` where the file
        cannot be written."""
        from softib.diags.baseline import write_baseline

        write_baseline(self._found, os.fspath(path))

    def table(self) -> Table:
        """One row a finding: severity, code, where (the ports or nodes), message, advice."""
        return Table(
            {
                "severity": [f.severity.name.lower() for f in self._found],
                "code": [f.code for f in self._found],
                "where": [", ".join(map(str, f.where)) for f in self._found],
                "message": [f.message for f in self._found],
                "advice": [f.advice for f in self._found],
            }
        )

    def to_json(self) -> dict[str, Any]:
        """As ``softib check --json`` prints it (docs/schemas/check.schema.json)."""
        from softib.render.as_json import check_json

        return check_json(self._shown)

    def to_csv(self) -> str:
        """A row a finding, for spreadsheets."""
        from softib.render.findings_csv import to_csv

        return to_csv(self._shown)

    def to_sarif(self) -> str:
        """SARIF 2.1.0, for code hosts."""
        from softib.render.sarif import to_sarif

        return to_sarif(self._shown)

    def to_junit(self) -> str:
        """JUnit XML, for CI servers: a failed case for each warning and error."""
        from softib.render.junit import to_junit

        return to_junit(self._shown)

    def print(self, every: bool = False) -> None:
        """As ``softib check`` prints it: many of one kind are cut short, unless ``every`` one is
        wanted."""
        from softib.render.terminal import console, print_check

        print_check(self._shown, console(), every)

    def plot(self) -> Drawing:
        """The fabric's switches and cables, with these findings marked."""
        from softib.api.graph import drawing

        return drawing(self._shown)

    @property
    def _shown(self) -> model.Report:
        return replace(self._report, findings=list(self._found))

    def _with(self, found: Iterable[Finding]) -> Findings:
        return Findings(self._report, found)

    def __repr__(self) -> str:
        counts = totals([f.severity.name.lower() for f in self._found])
        return f"<Findings: {counts or 'none'}>"

    def _repr_html_(self) -> str:
        cells = ((f.severity.name.lower(), f.code, ", ".join(map(str, f.where)), f.message) for f in self._found)
        return html_table(("severity", "code", "where", "message"), cells) if self._found else "<p>no findings</p>"


def severity_named(name: str) -> int:
    """The severity ``info``, ``warning`` or ``error``. Raises :class:`UnknownName`."""
    from softib.diags.finding import Severity
    from softib.errors import UnknownName

    names = {s.name.lower(): s for s in Severity}
    if name not in names:
        raise UnknownName("severity", name, names)
    return names[name]


def checked_codes(codes: Iterable[str]) -> None:
    """Raise :class:`UnknownName` for a code that no check has."""
    from softib.diags.check import finding_codes
    from softib.errors import UnknownName

    for code in codes:
        if code not in finding_codes():
            raise UnknownName("finding code", code, finding_codes())
