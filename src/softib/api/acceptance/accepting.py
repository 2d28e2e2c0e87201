"""Does a fabric perform? perftest between all its hosts, compared with what their paths let expect."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from softib.analysis.acceptance.findings import ClassSummary, Unit, summary
from softib.api.acceptance.options import AcceptOptions, Options
from softib.api.fabric import Fabric, result_of
from softib.api.findings import Findings
from softib.api.progress import Steps, unwatched
from softib.api.shown import Suggests
from softib.api.table import Table
from softib.diags.acceptance.measurements import PairFailure
from softib.diags.finding import Finding
from softib.errors import InputError, UnknownFormat, UnreadableFile
from softib.plural import counted
from softib.result import Result, also, columns, key

if TYPE_CHECKING:
    import numpy as np

    from softib.analysis.acceptance.ends import FabricEnds
    from softib.analysis.acceptance.expected_pairs import Expectation
    from softib.api.running.running import RunningFabric
    from softib.diags.acceptance.measurements import Measurements
    from softib.diags.acceptance.schedule import Ends
    from softib.fabric.formats.base import ReadResult
    from softib.live.acceptance.launchers import Launcher

__all__ = ["Acceptance", "AcceptanceSource", "accept", "where_to_measure"]

Source: TypeAlias = "Fabric | RunningFabric | str | os.PathLike[str] | Sequence[str]"
Progress: TypeAlias = Callable[[int, int, float], None]
LOCAL = "local"


@dataclass(frozen=True)
class AcceptanceSource:
    """Where measurements are taken: ``ends``; ``name`` for people; ``result`` and ``expectation``
    of the fabric, None where only hosts are known; ``running``: the name of a fabric that runs;
    ``paced``: what programs send takes the time of links."""

    name: str
    ends: Ends
    result: ReadResult | None = None
    expectation: Expectation | None = None
    running: str = ""
    paced: bool = True


@dataclass(frozen=True)
class PairMeasurement(Result):
    """What one pair measured in one round."""

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
    """How an acceptance was run."""

    launcher: Literal["local", "ssh", "srun"]
    program: str
    """``write``: ib_write_bw and ib_write_lat."""
    tests: list[str]
    rounds: int
    sizes: dict[str, int]
    """Bytes of a message by test."""
    seconds: float


class Acceptance(Suggests, Result):
    """What an acceptance run measured and found."""

    document = "accept"

    def __init__(
        self,
        source: AcceptanceSource,
        measured: Measurements,
        expected: np.ndarray,
        findings: Findings,
        about: Mapping[str, Any],
    ):
        self._source, self._measured, self._expected = source, measured, expected
        self.findings = findings
        self.about: dict[str, Any] = dict(about)
        """How it was run: ``launcher``, ``program``, ``tests``, ``rounds``, ``sizes``, ``seconds``.
        """

    @property
    def good(self) -> bool:
        """Nothing but information was found."""
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
        known = self._source.expectation is not None
        names = [m.ends.name(i) for i in range(len(m.ends))]
        columns_of = (m.test, m.round, kinds, m.source, m.target, m.value, expected)
        return [
            PairMeasurement(
                t, r, CLASSES[k] if known else "all", names[a], names[b], v, TESTS[t].unit, e if e == e else None
            )
            for t, r, k, a, b, v, e in zip(*(column.tolist() for column in columns_of), strict=True)
        ]

    @property
    def measurements(self) -> Measurements:
        """The columns behind it."""
        return self._measured

    @property
    def fabric(self) -> Fabric | None:
        """The fabric that was measured; None where only hosts were known."""
        return None if self._source.result is None else Fabric(self._source.result, self._source.name)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Pairs that could not measure: round, test, source, target, the host at fault (None:
        neither alone), reason."""
        return [f.to_json() for f in self._failures]

    def summary(self) -> list[dict[str, Any]]:
        """One row for each test and class of pairs: least, median and largest value, and the median
        of what was expected."""
        return [s.to_json() for s in self._summary]

    def table(self) -> Table:
        """One row a measurement: test, round, class of the pair, source, target, value, unit,
        expected."""
        return Table(columns(self._rows, PairMeasurement))

    def lines(self) -> list[str]:
        """The summary for people."""
        return list(map(str, self._summary))

    def __repr__(self) -> str:
        return (
            f"<Acceptance of {self._name!r}: {counted(self._hosts, 'host')}, "
            f"{counted(len(self._measured), 'measurement')}, {self.findings!r}>"
        )

    def _repr_html_(self) -> str:
        return Table(columns(self._summary, ClassSummary))._repr_html_() + self.findings._repr_html_()


def accept(
    source: Source,
    *,
    launcher: str | None = None,
    hosts: str | os.PathLike[str] | Sequence[str] | None = None,
    devices: Sequence[str] = (),
    ssh_config: str | os.PathLike[str] = "",
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress = lambda done, of, left_s: None,
    steps: Steps = unwatched,
    **options: Unpack[AcceptOptions],
) -> Acceptance:
    """Measure bandwidth and latency between all hosts with perftest, in rounds in which every port
    has a partner, and name what is slow.

    ``source``: a running fabric (``launcher`` ``local``: programs run on its nodes), or any other
    SOURCE, a file or list of hosts, for ``ssh`` or ``srun``. Only a source with cables knows paths:
    without, hosts and adapters alone can be named. ``hosts``: these alone. ``devices``: adapters of
    hosts that no fabric describes, a rail each. ``ssh_config``: ssh's configuration file (keys,
    ports, jump hosts), where it is not the user's. ``journal``: a file that gets each batch as it
    is done; ``resume`` goes on with it. ``progress`` is called with batches done, all batches and
    seconds left.

    ``options``: ``rounds`` of each class of pairs (same leaf, across spine, across core; 4; None:
    until all have met); ``tests`` by name (``bandwidth``, ``bandwidth-both``,
    ``bandwidth-both-loaded``, ``latency``, ``latency-loaded``, ``latency-with-bandwidth``; all);
    ``quick``: the loaded ones, two rounds; ``program``: ``write``, ``send`` or ``read``; ``size``
    octets of a message; ``seconds`` that a program ought to send; ``at_once``: pairs at a time
    where each is to be alone on its links; ``base_port`` of TCP; ``seed``.

    Hosts that fail are findings; the rest goes on. Raises :class:`InputError` and its kin where it
    cannot begin.
    """
    from softib.analysis.acceptance.plan import host_ports, measurements_of, plan_batches
    from softib.live.acceptance.campaign import run_campaign
    from softib.live.acceptance.journal import Journal
    from softib.live.acceptance.launchers import launcher_named

    given = Options(**options)
    with steps("paths"):
        place = where_to_measure(source, hosts, devices, steps)
        started_by = _launcher(place, launcher, os.fspath(ssh_config), launcher_named)
        plan = plan_batches(
            place.ends,
            place.expectation,
            given.chosen,
            per_class=given.per_class,
            size=given.size,
            seconds=given.seconds,
            at_once=given.at_once or _at_once(place, started_by.name),
            seed=given.seed,
        )
    ports = host_ports(place.ends)
    about = {
        "launcher": started_by.name,
        "program": given.program,
        "tests": [t.name for t in given.chosen],
        "rounds": len(plan.rounds),
        "sizes": dict(plan.sizes),
        "seconds": given.seconds,
    }
    stated = {
        "source": place.name,
        **about,
        "seed": given.seed,
        "ports": [[p.node, p.host, p.device, p.portnum] for p in ports],
    }
    book = Journal(journal, stated, resume)
    run_campaign(plan.batches, ports, started_by, book, given.program, given.base_port, progress)
    return judged(place, measurements_of(place.ends, book.entries), about, steps)


def judged(place: AcceptanceSource, measured: Measurements, about: Mapping[str, Any], steps: Steps) -> Acceptance:
    """Findings of measurements that are there."""
    from softib.analysis.acceptance.findings import judge

    with steps("tomography"):
        found = judge(measured, place.expectation, dict(about["sizes"]), paced=place.paced)
    return Acceptance(place, measured, found.expected, Findings(report_of(place, found.findings)), about)


def report_of(place: AcceptanceSource, found: Sequence[Any]) -> Any:
    """The report that findings of this source stand in."""
    from softib.analysis.model import Report
    from softib.analysis.pipeline import counts_of
    from softib.fabric.builder import FabricBuilder
    from softib.fabric.formats.base import ReadResult
    from softib.iba.constants import NodeType

    result = place.result
    if result is None:
        built = FabricBuilder(place.name)
        built.nodes(len(place.ends), NodeType.CA, 1, desc=list(place.ends.node))
        result = ReadResult(built.build(), [], "hosts")
    return Report(
        place.name, result.format, counts_of(result), list(found), list(result.problems), fabric=result.fabric
    )


def where_to_measure(
    source: Source,
    hosts: str | os.PathLike[str] | Sequence[str] | None = None,
    devices: Sequence[str] = (),
    steps: Steps = unwatched,
) -> AcceptanceSource:
    """The ports to measure from, and what is known of the paths between them."""
    from softib.analysis.acceptance.ends import ends_of_hosts
    from softib.analysis.jobs.host_lists import read_hosts

    chosen = None if hosts is None else read_hosts(hosts)
    fabric = _fabric_of(source)
    if fabric is not None:
        return _on_fabric(fabric, chosen, steps)
    assert not isinstance(source, Fabric) and not hasattr(source, "snapshot")
    listed = read_hosts(source)
    kept = [h for h in listed if chosen is None or h in chosen]
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else f"{counted(len(listed), 'host')}"
    return AcceptanceSource(name, ends_of_hosts(kept, devices))


def _fabric_of(source: Source) -> Fabric | None:
    """The fabric that ``source`` is; None for hosts."""
    from softib.api.fabric import as_fabric

    if isinstance(source, Fabric) or hasattr(source, "snapshot"):
        return as_fabric(source)
    if not isinstance(source, str | os.PathLike):
        return None
    try:
        return as_fabric(os.fspath(source))
    except UnknownFormat:
        return None
    except UnreadableFile:
        if not os.path.exists(source) and any(c in os.fspath(source) for c in ",["):
            return None
        raise


def _on_fabric(fabric: Fabric, hosts: Sequence[str] | None, steps: Steps) -> AcceptanceSource:
    from softib.analysis.acceptance.ends import ends_of_fabric
    from softib.analysis.acceptance.expected_pairs import Expectation
    from softib.analysis.routed import routed
    from softib.api.running.running import RunningFabric

    result = result_of(fabric)
    found = routed(result, None, None, steps)
    ends: FabricEnds = ends_of_fabric(found.fabric, found.graph, hosts)
    running = fabric.source if fabric.format == "running" else ""
    expectation = Expectation(found.fabric, ends.row, None)
    paced = not running or bool(RunningFabric(running).status()["pace"])
    return AcceptanceSource(fabric.source, ends.ends, result, expectation, running, paced)


def _launcher(
    place: AcceptanceSource, name: str | None, ssh_config: str, launcher_named: Callable[[str, str, str], Launcher]
) -> Launcher:
    if name is None and place.result is not None and not place.running:
        n = len(set(place.ends.host))
        raise InputError(
            f"{place.name} describes {counted(n, 'host')}; use --launcher ssh or --launcher srun to run perftest on "
            f"{'them' if n != 1 else 'it'}"
        )
    chosen = name or (LOCAL if place.running else "ssh")
    if chosen == LOCAL and not place.running:
        raise InputError(f"{place.name} is no running fabric: its hosts are reached by ssh or srun (--launcher)")
    return launcher_named(chosen, place.running, ssh_config)


def _at_once(place: AcceptanceSource, launcher: str) -> int | None:
    """Pairs at a time: as many as this machine has processors for where all run here, one where
    nobody knows who shares links."""
    if launcher == LOCAL:
        return max(1, (os.cpu_count() or 2) // 2)
    return None if place.expectation is not None else 1
