"""The counters of a fabric as metrics for Prometheus: ``softib exporter``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softib.api.arguments import Suggests
from softib.api.progress import Notice
from softib.errors import InputError, UnknownName
from softib.monitor.sharding.shard import Shard
from softib.plural import counted
from softib.result import Result
from softib.source import warn

if TYPE_CHECKING:
    from softib.diags.observations import ObservedPorts
    from softib.monitor.exporter.service import ExporterService
    from softib.monitor.ledger import Fault

__all__ = ["Exporter", "FaultLedger", "FaultRecord", "RepairRecord", "Shard"]


class Exporter(Suggests):
    """Reads the running fabric or ``umad:DEVICE`` ``source``, or a :class:`Shard` of one, every
    ``every`` seconds and serves ``/metrics`` at ``address``:``port`` (0: a free one). A context
    manager.

    ``names``: ``treydock`` or ``guilbaults``, the scheme of the ports' metric names and labels.
    ``window``: maximum seconds covered by error ratios. ``history``: keep every interval as
    Parquet in this directory for ``keep_days`` days (0: for ever). ``in_flight``: maximum
    outstanding requests per device. Known devices that are down stay in the metrics for
    ``keep_days`` days, or until :meth:`forget`. Raises :class:`InputError` for an unusable source,
    name or port, :class:`MissingLibrary` without the extra ``monitor``.
    """

    def __init__(
        self,
        source: str | Shard,
        *,
        address: str = "127.0.0.1",
        port: int = 9315,
        names: str = "treydock",
        every: float = 15.0,
        window: float = 3600.0,
        history: str | os.PathLike[str] | None = None,
        keep_days: float = 30.0,
        in_flight: int = 4,
        notice: Notice = warn,
    ):
        from softib.monitor.exporter.names import SCHEMES
        from softib.monitor.exporter.service import ExporterService
        from softib.monitor.history import History
        from softib.monitor.opening import open_source
        from softib.monitor.perfmgr import Pace

        if names not in SCHEMES:
            raise InputError(f"names={names!r}: use one of {', '.join(SCHEMES)}")
        kept = None if history is None else History(history, keep_days)
        opened = open_source(source)
        if opened.other_subnets:
            notice(opened.other_subnets)
        try:
            self._service: ExporterService = ExporterService(
                opened,
                address=address,
                port=port,
                every_s=every,
                scheme=names,
                window_s=window,
                history=kept,
                pace=Pace(most=in_flight),
                keep_s=keep_days * 86400,
                notice=notice,
            )
        except BaseException:
            opened.close()
            raise
        self.source, self.address = source.source if isinstance(source, Shard) else source, address

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._service.port

    @property
    def url(self) -> str:
        """URL of the metrics."""
        return f"http://{self.address}:{self.port}/metrics"

    def start(self) -> None:
        """Read the first round, then serve in threads of this process."""
        self._service.start()

    def serve(self) -> None:
        """Call :meth:`start` if needed, and serve until the fabric goes down (:class:`PeerError`)
        or SIGINT."""
        if not self._service.started:
            self.start()
        self._service.wait()

    def once(self, every: float = 1.0) -> str:
        """Return the metrics of one interval of ``every`` seconds as text, without a server: for
        node_exporter's textfile collector."""
        import time

        self._service.step()
        time.sleep(every)
        self._service.step()
        return b"".join(self._service.metrics()).decode()

    @staticmethod
    def text_of(
        *files: str | os.PathLike[str], names: str = "treydock", fabric: str | os.PathLike[str] | None = None
    ) -> str:
        """Return the metrics of collected files, as in :func:`softib.observe`: of the newer of one
        or two ``files`` (ibdiagnet's .db_csv, perfquery's output …); interval metrics need two.
        ``fabric`` has the ports for files that contain only counters. Raises :class:`InputError`
        or a related error as :func:`softib.observe` does."""
        from softib.monitor.exporter.names import SCHEMES
        from softib.monitor.exporter.text import text_of_files

        if names not in SCHEMES:
            raise InputError(f"names={names!r}: use one of {', '.join(SCHEMES)}")
        if not 1 <= len(files) <= 2:
            raise InputError(f"{counted(len(files), 'file')}; use one, or two of different times")
        return text_of_files([os.fspath(f) for f in files], names, None if fabric is None else os.fspath(fabric))

    def export_to(self, *targets: str) -> None:
        """Also pass every further round to exporters of installed packages, each as
        ``NAME=TARGET``. Raises :class:`InputError` for an unknown exporter, or one that cannot be
        opened.
        """
        from softib.monitor.exporter.round_exporter import open_exporters

        self._service.sinks += open_exporters(self.source, targets)

    def expect(self, file: str | os.PathLike[str]) -> None:
        """Expect the devices and cables of a plan or a discovery: they are down until seen. Raises
        :class:`InputError` or a related error for a file that cannot be read."""
        self._service.seen.expect(_ports_of_file(os.fspath(file)))

    def leave_out(self, *collectors: str) -> None:
        """Leave out of rounds and metrics: ``details`` (causes of errors and discards), ``fec``,
        ``modules``, ``manager`` or ``findings``. Raises :class:`UnknownName` for another one."""
        from softib.monitor.perfmgr import COLLECTORS

        for name in collectors:
            if name not in COLLECTORS:
                raise UnknownName("collector", name, COLLECTORS)
        self._service.watch.poller.left_out |= set(collectors)

    def follow_jobs(self, jobs: str | os.PathLike[str]) -> None:
        """Name in findings the jobs whose traffic crosses the cable: jobs of a file as in
        :func:`jobs_on`, read again when it changes. Raises :class:`UnreadableFile` and
        :class:`InputError` for a file that has no jobs."""
        from softib.analysis.jobs.files import read_jobs

        read_jobs(os.fspath(jobs))
        self._service.follow_jobs(os.fspath(jobs))

    @staticmethod
    def forget(source: str, *names: str) -> list[str]:
        """Make the exporter of ``source`` forget devices and ports that are down: all, or
        ``names`` (``leaf-1``, ``leaf-1[3]``, a GUID). Returns the removed ports. Raises
        :class:`UnknownName` for a name that is not down."""
        from softib.monitor.opening import memory_of
        from softib.monitor.seen_ports import forget

        return [port.place for port in forget(memory_of(source), names)]

    @staticmethod
    def ledger(source: str) -> FaultLedger:
        """Return the faults of ``source`` recorded by its exporter: one record per cable or device,
        current faults first, then the latest."""
        from softib.monitor.ledger import faults_of
        from softib.monitor.opening import memory_of

        faults = faults_of(memory_of(source))
        order = sorted(faults, key=lambda f: (f.standing is None, -f.episodes[-1].last_s if f.episodes else 0.0))
        return FaultLedger([_record(f) for f in order])

    @staticmethod
    def repaired(source: str, *names: str, by: str, note: str = "") -> FaultLedger:
        """Write into the ledger of ``source`` that the cables or devices ``names`` (``leaf-1``,
        ``leaf-1[3]``) were repaired ``by`` a person: earlier counts no longer apply. Raises
        :class:`UnknownName` for a name that is not in the ledger, :class:`InputError` if no person
        is given."""
        import time

        from softib.monitor.ledger import Repair, repaired
        from softib.monitor.opening import memory_of

        if not by.strip():
            raise InputError("by: add the name of the person")
        repair = Repair(time.time(), by.strip(), note.strip())
        return FaultLedger([_record(f) for f in repaired(memory_of(source), names, repair)])

    def close(self) -> None:
        """Stop serving and reading."""
        self._service.close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Exporter of {self.source} at {self.url}>"


@dataclass
class RepairRecord(Result):
    """One repair in the ledger."""

    time: float
    """Seconds since 1970."""
    by: str
    note: str


@dataclass
class FaultRecord(Result):
    """Faults of one cable or device."""

    where: list[str]
    """Names of both ends, or of the device."""
    standing: bool
    """The fault is current."""
    begun: float
    """Start of the current or last occurrence, in seconds since 1970."""
    codes: list[str]
    """Codes of the findings of the last occurrence."""
    first: float
    """When it was first seen, in seconds since 1970."""
    last: float
    """When it was last seen."""
    times_in_30_days: int
    """Number of occurrences, including the current one."""
    repairs: list[RepairRecord]


@dataclass
class FaultLedger(Result):
    """Faults of a fabric, recorded by its exporter."""

    document = "ledger"

    faults: list[FaultRecord]

    def lines(self) -> list[str]:
        """Return one text line each."""
        return [_line(f) for f in self.faults]


def _line(f: FaultRecord) -> str:
    from datetime import datetime

    def at(seconds: float) -> str:
        return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")

    when = f"since {at(f.begun)}" if f.standing else f"until {at(f.last)}"
    repeated = f", time {f.times_in_30_days} in 30 days, first seen {at(f.first)}" if f.times_in_30_days > 1 else ""
    repair = f.repairs[-1] if f.repairs else None
    by = (
        f"; repaired {at(repair.time)} by {repair.by}" + (f": {repair.note}" if repair.note else "")
        if repair is not None
        else ""
    )
    where = " ↔ ".join(f.where) or "the fabric"
    return f"{where}: {', '.join(f.codes)}, {'stands ' if f.standing else ''}{when}{repeated}{by}"


def _record(fault: Fault) -> FaultRecord:
    import time

    episodes = fault.episodes
    return FaultRecord(
        fault.names,
        fault.standing is not None,
        episodes[-1].first_s if episodes else 0.0,
        episodes[-1].codes if episodes else [],
        episodes[0].first_s if episodes else 0.0,
        episodes[-1].last_s if episodes else 0.0,
        fault.times(time.time()),
        [RepairRecord(r.time_s, r.by, r.note) for r in fault.repairs],
    )


def _ports_of_file(file: str) -> ObservedPorts:
    from softib.monitor.fabric_ports import ports_of, rows_of
    from softib.source import load

    fabric = load(file, notice=lambda line: None).fabric
    return ports_of(fabric, rows_of(fabric))
