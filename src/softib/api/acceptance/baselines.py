"""Baselines: the state of a fabric when it was accepted, and its changes since."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from softib.analysis.acceptance.drift import Drift
from softib.api.acceptance.result import Acceptance
from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.findings import Findings
from softib.api.monitor.observing import Observed, observe
from softib.api.progress import Steps, unwatched
from softib.api.table import Table
from softib.diags.finding import Finding
from softib.errors import InputError, UnreadableFile
from softib.input_files import FILE_LIMIT, content, head, json_document
from softib.plural import counted
from softib.result import Result, key

if TYPE_CHECKING:
    from softib.analysis.acceptance.baseline import BaselineRecord
    from softib.api.running.running import RunningFabric

__all__ = ["Baseline", "baseline"]

Source: TypeAlias = "Fabric | RunningFabric | Acceptance | str | os.PathLike[str]"
Pairs: TypeAlias = dict[str, dict[tuple[str, str], float]]
HEAD = 4096


@dataclass
class TestDrift(Result):
    """Change of the pairs of a test."""

    test: str
    drift: Drift = field(metadata=key(flat=Drift))


@dataclass
class BaselineComparison(Result):
    """Changes since a baseline."""

    document = "baseline"

    before: str
    after: str
    tests: list[TestDrift]
    findings: list[Finding]


@dataclass
class BaselineSummary(Result):
    """The numbers of nodes and measurements in a baseline."""

    name: str
    nodes: int
    """Number of nodes of the fabric; 0 if the baseline has only measurements."""
    pairs: dict[str, int]
    """Test → number of measured pairs."""


@dataclass
class RecordedBaseline(Result):
    """A baseline that was written."""

    document = "baseline-record"

    file: str
    summary: BaselineSummary = field(metadata=key(flat=BaselineSummary))


class Baseline(Suggests):
    """The state of a fabric when it was accepted: topology, firmware, cables, error rates,
    measurements (:func:`baseline` makes one)."""

    def __init__(self, record: BaselineRecord, accepted: Acceptance | None = None):
        self._record, self._accepted = record, accepted

    @property
    def name(self) -> str:
        """Name of the source."""
        return self._record.name

    def summary(self) -> BaselineSummary:
        """Return the numbers of nodes and measurements."""
        r = self._record
        nodes = 0 if r.fabric is None else r.fabric.sizes.nodes
        return BaselineSummary(r.name, nodes, {test: len(p) for test, p in r.pairs.items()})

    def save(self, path: str | os.PathLike[str]) -> RecordedBaseline:
        """Write it as JSON. Raises :class:`InputError` if the file cannot be written."""
        from softib.analysis.acceptance.baseline import write_baseline

        write_baseline(self._record, path)
        return RecordedBaseline(os.fspath(path), self.summary())

    def table(self) -> Table:
        """Return one row per pair: test, source, target, value (Gb/s or microseconds)."""
        rows = [(t, a, b, v) for t, pairs in self._record.pairs.items() for (a, b), v in pairs.items()]
        return Table({key: [r[i] for r in rows] for i, key in enumerate(("test", "source", "target", "value"))})

    def compare(self, after: Baseline) -> Findings:
        """Return the differences of ``after`` from this baseline: significant changes of measurements, error rates,
        topology, firmware and cables. If ``after`` was made from an :class:`Acceptance`, the findings also name the
        parts that degraded pairs have in common. Raises :class:`InputError` if the two belong to different fabrics.
        """
        from softib.analysis.acceptance.baseline_compare import compare_baselines
        from softib.api.acceptance.accepting import report_of

        findings = compare_baselines(self._record, after._record)
        if after._accepted is not None:
            findings += self._parts(after._accepted)
            return Findings(report_of(after._accepted._source, findings))
        return Findings(_report(after._record if after._record.fabric is not None else self._record, findings))

    def drift(self, after: Baseline) -> list[dict[str, Any]]:
        """Return one row for each test that both baselines have: number of pairs in both, median of (value after /
        value before), probability of such a change by chance, number of pairs in only one of them."""
        return [one.to_json() for one in self._drift(after)]

    def comparison(self, after: Baseline) -> dict[str, Any]:
        """Return the document of ``softib baseline compare --json`` (docs/schemas/baseline.schema.json)."""
        return BaselineComparison(self.name, after.name, self._drift(after), list(self.compare(after))).to_json()

    def _drift(self, after: Baseline) -> list[TestDrift]:
        from softib.analysis.acceptance.baseline_compare import drift_of

        return [TestDrift(test, drift) for test, drift in drift_of(self._record, after._record).items()]

    def _parts(self, accepted: Acceptance) -> list[Any]:
        """Return findings for the parts that explain why pairs are slower than in this baseline."""
        import numpy as np

        from softib.analysis.acceptance.baseline_compare import reference_of
        from softib.analysis.acceptance.findings import judge

        m = accepted._measured
        names = [m.ends.name(i) for i in range(len(m.ends))]
        reference = np.array(
            [
                reference_of(self._record.pairs, str(t), (names[a], names[b]))
                for t, a, b in zip(m.test.tolist(), m.source.tolist(), m.target.tolist(), strict=True)
            ]
        )
        if not np.isfinite(reference).any():
            return []
        return judge(m, accepted._source.expectation, accepted.about["sizes"], reference).findings

    def __repr__(self) -> str:
        s = self.summary()
        measured = ", ".join(f"{counted(n, 'pair')} of {t}" for t, n in s.pairs.items()) or "no measurements"
        return f"<Baseline of {s.name!r}: {counted(s.nodes, 'node')}, {measured}>"


def baseline(
    source: Source,
    accepted: Acceptance | str | os.PathLike[str] | None = None,
    *,
    rounds: int = 0,
    every: float = 10.0,
    observed: Observed | None = None,
    on_round: Callable[[dict[str, Any]], None] = lambda one: None,
    steps: Steps = unwatched,
) -> Baseline:
    """Create a baseline of ``source``: a fabric (any SOURCE), an :class:`Acceptance`, a file of
    ``softib accept --json`` or its journal, or a file that :meth:`Baseline.save` wrote.

    ``accepted``: measurements of the fabric. Rates of error counters come from ``observed``, or from ``rounds``
    readings, ``every`` seconds apart, of a running fabric or ``umad:DEVICE`` (0: no rates). Raises :class:`InputError`
    or a related error in one line.
    """
    from softib.analysis.acceptance.baseline import BaselineRecord, read_baseline, record_of

    if isinstance(source, Acceptance):
        if source.fabric is None:
            return Baseline(BaselineRecord(source._source.name, pairs=_pairs_of(source)), source)
        return baseline(
            source.fabric, source, rounds=rounds, every=every, observed=observed, on_round=on_round, steps=steps
        )
    kind = _kind_of(source)
    if kind == "baseline":
        return Baseline(read_baseline(str(source)))
    if kind == "accepted":
        return Baseline(BaselineRecord(os.fspath(source), pairs=_pairs_of(source)))
    fabric = as_fabric(source)
    if observed is None and rounds:
        observed = observe(fabric.source, rounds=rounds, every=every, on_round=on_round)
    with steps("baseline"):
        pairs: Pairs = {} if accepted is None else _pairs_of(accepted)
        record = record_of(
            fabric.source,
            result_of(fabric).fabric,
            _ports(fabric, observed),
            getattr(observed, "observations", None),
            pairs,
        )
    if accepted is not None and not isinstance(accepted, Acceptance):
        accepted = _judgeable(fabric, accepted, steps)
    return Baseline(record, accepted)


def _ports(fabric: Fabric, observed: Observed | None) -> Any:
    """Return the data of devices and cables: from MADs if possible, otherwise from the source's file."""
    from softib.monitor.fabric_ports import ports_of, rows_of

    if observed is not None:
        return observed.observations.ports
    result = result_of(fabric)
    return ports_of(result.fabric, rows_of(result.fabric), result.extra)


def _kind_of(source: Any) -> str:
    """Return ``baseline``, ``accepted`` (JSON or journal), or otherwise ``fabric``."""
    from softib.analysis.acceptance.baseline import KEY
    from softib.live.acceptance.journal import KEY as JOURNAL

    if not isinstance(source, str | os.PathLike) or not os.path.isfile(source):
        return "fabric"
    start = head(source, HEAD).lstrip()
    if not start.startswith(b"{"):
        return "fabric"
    if f'"{JOURNAL}"'.encode() in start or b'"softib/accept/' in start:
        return "accepted"
    return "baseline" if f'"{KEY}"'.encode() in content(source, kind="baseline").data else "fabric"


def _pairs_of(accepted: Acceptance | str | os.PathLike[str]) -> Pairs:
    """Test → pair → value."""
    if isinstance(accepted, Acceptance):
        m = accepted.measurements
        return {t: m.pairs(t) for t in m.tests}
    if _kind_of(accepted) != "accepted":
        raise InputError(
            f"{os.fspath(accepted)}: not a result of softib accept; use its --json output or its --journal"
        )
    plan, rows = _read_accepted(accepted)
    return _medians(plan, rows)


def _read_accepted(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (about, measurements by name) from a journal or a --json document."""
    from softib.live.acceptance.journal import KEY, read_journal

    if f'"{KEY}"'.encode() not in head(path, HEAD):
        document = json_document(path, "result of softib accept", "run softib accept again with --json", FILE_LIMIT)
        try:
            return document, list(document["measurements"])
        except (KeyError, TypeError):
            raise UnreadableFile(
                f"{os.fspath(path)}: the result of softib accept is damaged; run it again with --json"
            ) from None
    plan, entries = read_journal(path)
    label = lambda p: (f"{p[1]} {p[2]}".strip()) + ("" if p[3] in (0, 1) else f"[{p[3]}]")
    try:
        names = [label(p) for p in plan["ports"]]
        rows = [
            {"test": e["test"], "round": e["round"], "source": names[a], "target": names[b], "value": v}
            for e in entries
            for a, b, v in e["values"]
        ]
    except (KeyError, IndexError, TypeError, ValueError):
        raise UnreadableFile(
            f"{os.fspath(path)}: the journal of softib accept is damaged; run softib accept again"
        ) from None
    return plan, rows


def _medians(plan: dict[str, Any], rows: list[dict[str, Any]]) -> Pairs:
    from statistics import median

    from softib.diags.acceptance.measurements import TESTS

    values: dict[str, dict[tuple[str, str], list[float]]] = {}
    for r in rows:
        if r["test"] in TESTS:
            values.setdefault(r["test"], {}).setdefault((str(r["source"]), str(r["target"])), []).append(
                float(r["value"])
            )
    return {t: {k: median(v) for k, v in pairs.items()} for t, pairs in values.items()}


def _judgeable(fabric: Fabric, path: str | os.PathLike[str], steps: Steps) -> Acceptance:
    """Return the measurements of a file that are between ports of the fabric. They are used to find slow parts."""
    from softib.api.acceptance.accepting import judged, where_to_measure
    from softib.diags.acceptance.measurements import Measurements

    about, rows = _read_accepted(path)
    place = where_to_measure(fabric, steps=steps)
    row = {place.ends.name(i): i for i in range(len(place.ends))}
    kept = [
        {**r, "source": row[r["source"]], "target": row[r["target"]]}
        for r in rows
        if r["source"] in row and r["target"] in row
    ]
    kept_about: dict[str, Any] = {
        k: about[k] for k in ("launcher", "program", "tests", "rounds", "sizes", "seconds") if k in about
    }
    return judged(place, Measurements.of(place.ends, kept), kept_about, steps)


def _report(record: BaselineRecord, findings: list[Any]) -> Any:
    from softib.analysis.model import Report
    from softib.analysis.pipeline import counts_of
    from softib.fabric.builder import FabricBuilder
    from softib.fabric.formats.base import ReadResult
    from softib.iba.constants import NodeType

    fabric = record.fabric
    if fabric is None:
        built = FabricBuilder(record.name)
        built.nodes(1, NodeType.CA, 1)
        fabric = built.build()
    result = ReadResult(fabric, [], "baseline")
    return Report(record.name, result.format, counts_of(result), findings, [], fabric=result.fabric)
