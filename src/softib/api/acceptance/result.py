"""The result of an acceptance run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from softib.analysis.acceptance.findings import ClassSummary, Unit, summary
from softib.api.acceptance.collectives import CollectiveRun
from softib.api.arguments import Suggests
from softib.api.fabric import Fabric
from softib.api.findings import Findings
from softib.api.table import Table
from softib.diags.acceptance.measurements import PairFailure
from softib.diags.finding import Finding
from softib.plural import counted
from softib.result import Result, also, columns, key

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.acceptance.expected_pairs import Expectation
    from softib.diags.acceptance.measurements import Measurements
    from softib.diags.acceptance.schedule import Ends
    from softib.fabric.formats.base import ReadResult

__all__ = ["Acceptance", "AcceptanceSource"]


@dataclass(frozen=True)
class AcceptanceSource:
    """Where measurements come from. ``ends``: the measured ports; ``name``: the source's name in texts; ``result`` and
    ``expectation``: the fabric and its expected values, None if only hosts are known; ``running``: the name if it is a
    running fabric; ``paced``: whether data crosses links at their rate."""

    name: str
    ends: Ends
    result: ReadResult | None = None
    expectation: Expectation | None = None
    running: str = ""
    paced: bool = True


@dataclass(frozen=True)
class PairMeasurement(Result):
    """Measurement of one pair in one round."""

    test: str
    round: int
    pairs: str
    source: str
    target: str
    value: float
    unit: str = field(metadata=key(type=Unit))
    expected: float | None


@dataclass(frozen=True)
class About(Result):
    """Parameters of an acceptance run."""

    launcher: Literal["local", "ssh", "srun"]
    program: str
    """``write`` (ib_write_bw and ib_write_lat), ``send`` or ``read``."""
    tests: list[str]
    rounds: int
    sizes: dict[str, int]
    """Bytes of a message, by test."""
    seconds: float


class Acceptance(Suggests, Result):
    """Measurements and findings of an acceptance run."""

    document = "accept"

    def __init__(
        self,
        source: AcceptanceSource,
        measured: Measurements,
        expected: np.ndarray,
        findings: Findings,
        about: Mapping[str, Any],
        collectives: Sequence[CollectiveRun] = (),
    ):
        self._source, self._measured, self._expected = source, measured, expected
        self.findings = findings
        self.collectives = list(collectives)
        """The benchmarks of collectives that ran."""
        self.about: dict[str, Any] = dict(about)
        """Parameters of the run: ``launcher``, ``program``, ``tests``, ``rounds``, ``sizes``,
        ``seconds``.
        """

    @property
    def good(self) -> bool:
        """Return whether there is no warning or error."""
        return self.findings.good

    @property
    @also("source")
    def _name(self) -> str:
        return self._source.name

    @property
    @also(flat=About)
    def _about(self) -> About:
        return About(**self.about)

    @property
    @also("hosts")
    def _hosts(self) -> int:
        return len(set(self._measured.ends.host))

    @property
    @also("ports")
    def _ports(self) -> int:
        return len(self._measured.ends)

    @property
    @also("summary")
    def _summary(self) -> list[ClassSummary]:
        return summary(self._measured, self._expected)

    @property
    @also("findings")
    def _findings(self) -> list[Finding]:
        return list(self.findings)

    @property
    @also("collectives")
    def _collectives(self) -> list[CollectiveRun]:
        return self.collectives

    @property
    @also("failures")
    def _failures(self) -> list[PairFailure]:
        return [f.named(self._measured.ends) for f in self._measured.failures]

    @property
    @also("measurements")
    def _rows(self) -> list[PairMeasurement]:
        from softib.diags.acceptance.measurements import TESTS
        from softib.diags.acceptance.schedule import CLASSES, class_of

        m, expected = self._measured, self._expected
        kinds = class_of(m.ends, m.source, m.target)
        expects = self._source.expectation is not None
        names = [m.ends.name(i) for i in range(len(m.ends))]
        columns_of = (m.test, m.round, kinds, m.source, m.target, m.value, expected)
        return [
            PairMeasurement(
                t, r, CLASSES[k] if expects else "all", names[a], names[b], v, TESTS[t].unit, e if e == e else None
            )
            for t, r, k, a, b, v, e in zip(*(column.tolist() for column in columns_of), strict=True)
        ]

    @property
    def measurements(self) -> Measurements:
        """The measurements as columns."""
        return self._measured

    @property
    def fabric(self) -> Fabric | None:
        """The measured fabric; None if only hosts were known."""
        return None if self._source.result is None else Fabric(self._source.result, self._source.name)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Failed pairs: round, test, source, target, the host at fault (None if no single host is), reason."""
        return [f.to_json() for f in self._failures]

    def summary(self) -> list[dict[str, Any]]:
        """Return one row for each test and class of pairs: smallest, median and largest value, and
        the median of the expected values."""
        return [s.to_json() for s in self._summary]

    def table(self) -> Table:
        """Return one row per measurement: test, round, class of the pair, source, target, value,
        unit, expected."""
        return Table(columns(self._rows, PairMeasurement))

    def lines(self) -> list[str]:
        """Return the summary as text lines."""
        return [*map(str, self._summary), *map(str, self.collectives)]

    def __repr__(self) -> str:
        return (
            f"<Acceptance of {self._name!r}: {counted(self._hosts, 'host')}, "
            f"{counted(len(self._measured), 'measurement')}, {self.findings!r}>"
        )

    def _repr_html_(self) -> str:
        return Table(columns(self._summary, ClassSummary))._repr_html_() + self.findings._repr_html_()
