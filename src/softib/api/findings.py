"""Findings of a check: filters, tables, and the formats of other programs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from softib.api.table import Rows
from softib.diags.finding import Finding
from softib.plural import counted

if TYPE_CHECKING:
    from softib.analysis import model
    from softib.api.graph import Drawing
    from softib.fabric.formats.base import Problem

__all__ = ["FindingRows", "Findings", "checked_codes", "severity_named"]


class FindingRows(Rows[Finding]):
    """Findings, worst first. Filters return new objects."""

    row, by = Finding, "severity"

    def at_least(self, severity: str) -> Self:
        """Return findings of ``info``, ``warning`` or ``error`` and worse. Raises
        :class:`UnknownName`."""
        least = severity_named(severity)
        return self._with([f for f in self.rows if f.severity >= least])

    def of(self, *codes: str) -> Self:
        """Return findings with these codes. Raises :class:`UnknownName` for an unknown code."""
        checked_codes(codes)
        return self._with([f for f in self.rows if f.code in codes])

    def without(self, *codes: str) -> Self:
        """Return findings without these codes. Raises :class:`UnknownName` for an unknown code."""
        checked_codes(codes)
        return self._with([f for f in self.rows if f.code not in codes])


class Findings(FindingRows):
    """Findings of a check, worst first; empty if there are none. Each has ``code``, ``severity``,
    ``where``, ``message``, ``evidence`` and ``advice``. Filters return new objects.
    """

    def __init__(self, report: model.Report, rows: Iterable[Finding] | None = None):
        self._report = report
        self.rows = sorted(report.findings if rows is None else rows, key=lambda f: -f.severity)

    @property
    def good(self) -> bool:
        """Return whether there is no warning or error (exit code 0 of ``softib check``)."""
        return not self.at_least("warning")

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Records of the source, the plan or the tables that could not be read: file, line, reason."""
        return tuple(self._report.problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """Steps that were skipped, with the reason, and the number of findings that a baseline hides."""
        return tuple(self._report.notes)

    def new_since(self, baseline: str | os.PathLike[str]) -> Findings:
        """Return the findings that are not in the file ``baseline``, which :meth:`save_baseline` wrote. A note states
        how many findings are known, and how many known ones are resolved. Raises :class:`InputError` for a file that is
        not a baseline."""
        from softib.diags.baseline import new_findings, read_baseline

        path = os.fspath(baseline)
        new = new_findings(self.rows, read_baseline(path))
        note = f"{counted(new.accepted, 'known finding')} of {path} not shown"
        note += f"; {new.resolved} of it {'is' if new.resolved == 1 else 'are'} resolved" if new.resolved else ""
        report = replace(self._report, notes=[*self._report.notes, note])
        return Findings(report, new.findings)

    def save_baseline(self, path: str | os.PathLike[str]) -> None:
        """Save these findings as known, for :meth:`new_since`. Raises :class:`InputError` if the
        file cannot be written."""
        from softib.diags.baseline import write_baseline

        write_baseline(self.rows, os.fspath(path))

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib check --json`` (docs/schemas/check.schema.json)."""
        from softib.analysis.model import CheckResult

        return CheckResult.of(self._shown).to_json()

    def to_csv(self) -> str:
        """Return one row per finding, for spreadsheets."""
        from softib.render.findings_csv import to_csv

        return to_csv(self._shown)

    def to_sarif(self) -> str:
        """Return SARIF 2.1.0, for code hosts."""
        from softib.render.sarif import to_sarif

        return to_sarif(self._shown)

    def to_junit(self) -> str:
        """Return JUnit XML for CI servers, with a failed test case for each warning and error."""
        from softib.render.junit import to_junit

        return to_junit(self._shown)

    def print(self, every: bool = False) -> None:
        """Print the findings like ``softib check``. If there are many of one kind, only some are printed unless
        ``every`` is set."""
        from softib.render.terminal import console, print_check

        print_check(self._shown, console(), every)

    def plot(self) -> Drawing:
        """Draw the fabric's switches and cables, with these findings marked."""
        from softib.api.graph import drawing

        return drawing(self._shown)

    @property
    def _shown(self) -> model.Report:
        return replace(self._report, findings=list(self.rows))

    def _with(self, rows: Iterable[Finding]) -> Findings:
        return Findings(self._report, rows)


def severity_named(name: str) -> int:
    """Return the value of the severity ``name``: ``info``, ``warning`` or ``error``. Raises :class:`UnknownName`."""
    from softib.diags.finding import Severity
    from softib.errors import UnknownName

    names = {s.name.lower(): s for s in Severity}
    if name not in names:
        raise UnknownName("severity", name, names)
    return names[name]


def checked_codes(codes: Iterable[str]) -> None:
    """Raise :class:`UnknownName` for an unknown code."""
    from softib.diags.check import finding_codes
    from softib.errors import UnknownName

    for code in codes:
        if code not in finding_codes():
            raise UnknownName("finding code", code, finding_codes())
