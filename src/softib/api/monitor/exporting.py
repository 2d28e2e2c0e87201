"""The counters of a fabric as metrics for Prometheus: ``softib exporter``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softib.api.arguments import Suggests
from softib.api.progress import Notice
from softib.errors import InputError, UnknownName
from softib.monitor.sharding.shard import Shard
from softib.plural import counted
from softib.source import warn

if TYPE_CHECKING:
    from softib.diags.observations import ObservedPorts
    from softib.monitor.exporter.service import ExporterService

__all__ = ["Exporter", "ExporterOptions", "Shard"]


@dataclass(frozen=True)
class ExporterOptions:
    """Options of an :class:`Exporter`: how it reads rounds, and where it writes them."""

    names: str = "treydock"
    """Scheme for the names and labels of port metrics: ``treydock`` or ``guilbaults``."""
    every: float = 15.0
    """Seconds between rounds."""
    window: float = 3600.0
    """Maximum time in seconds that error ratios cover."""
    in_flight: int = 4
    """Maximum outstanding requests per device."""
    leave_out: Sequence[str] = ()
    """Collectors to leave out of rounds and metrics: ``details`` (causes of errors and discards),
    ``fec``, ``modules``, ``manager``, ``findings``."""
    history: str | os.PathLike[str] | None = None
    """Directory in which every interval is stored as Parquet."""
    keep_days: float = 30.0
    """Number of days for which the history, and devices that are down, are kept; 0: for ever."""
    export_to: Sequence[str] = ()
    """Exporters of installed packages that also receive every round, each as ``NAME=TARGET``."""
    jobs: str | os.PathLike[str] | None = None
    """A file for :func:`softib.jobs_on`, which is read again when it changes: findings name the
    jobs whose traffic crosses the cable."""
    expect: str | os.PathLike[str] | None = None
    """A plan, or a dump of a discovery. Its devices and cables count as down until they are seen."""


class Exporter(Suggests):
    """Reads ``source`` (a running fabric, ``umad:DEVICE``, or a :class:`Shard` of one) in rounds, and serves
    ``/metrics`` at ``address``:``port`` (0: any free port). It is a context manager.

    Known devices that are down stay in the metrics for ``keep_days`` days, or until
    :func:`softib.forget_down`. Raises :class:`InputError` for an unusable source, name, port or
    file, :class:`UnknownName` for an unknown collector, :class:`MissingLibrary` without the extra
    ``monitor``.
    """

    def __init__(
        self,
        source: str | Shard,
        options: ExporterOptions | None = None,
        *,
        address: str = "127.0.0.1",
        port: int = 9315,
        notice: Notice = warn,
    ):
        from softib.monitor.exporter.names import SCHEMES
        from softib.monitor.exporter.service import ExporterService
        from softib.monitor.history import History
        from softib.monitor.opening import open_source
        from softib.monitor.perfmgr import COLLECTORS, Pace

        how = options or ExporterOptions()
        if how.names not in SCHEMES:
            raise InputError(f"names={how.names!r}: use one of {', '.join(SCHEMES)}")
        for name in how.leave_out:
            if name not in COLLECTORS:
                raise UnknownName("collector", name, COLLECTORS)
        history = None if how.history is None else History(how.history, how.keep_days)
        opened = open_source(source)
        if opened.other_subnets:
            notice(opened.other_subnets)
        try:
            self._service: ExporterService = ExporterService(
                opened,
                address=address,
                port=port,
                every_s=how.every,
                scheme=how.names,
                window_s=how.window,
                history=history,
                pace=Pace(most=how.in_flight),
                keep_s=how.keep_days * 86400,
                notice=notice,
            )
        except BaseException:
            opened.close()
            raise
        self.source, self.address = source.source if isinstance(source, Shard) else source, address
        try:
            self._configure(how)
        except BaseException:
            self.close()
            raise

    def _configure(self, how: ExporterOptions) -> None:
        from softib.analysis.jobs.files import read_jobs
        from softib.monitor.exporter.round_exporter import open_exporters

        self._service.watch.poller.left_out |= set(how.leave_out)
        self._service.sinks += open_exporters(self.source, how.export_to)
        if how.jobs is not None:
            read_jobs(os.fspath(how.jobs))
            self._service.follow_jobs(os.fspath(how.jobs))
        if how.expect is not None:
            self._service.seen.expect(_ports_of_file(os.fspath(how.expect)))

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
        """Return the metrics of one interval of ``every`` seconds as text. It starts no server; the text is for
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
        """Return the metrics of one or two ``files``, which may have the formats of :func:`softib.observe` (ibdiagnet's
        .db_csv, perfquery's output …). The metrics are those of the newer file; metrics of an interval need two files.
        If the files contain only counters, ``fabric`` provides the ports. Raises :class:`InputError` or a related error
        as :func:`softib.observe` does."""
        from softib.monitor.exporter.names import SCHEMES
        from softib.monitor.exporter.text import text_of_files

        if names not in SCHEMES:
            raise InputError(f"names={names!r}: use one of {', '.join(SCHEMES)}")
        if not 1 <= len(files) <= 2:
            raise InputError(f"{counted(len(files), 'file')}; use one, or two of different times")
        return text_of_files([os.fspath(f) for f in files], names, None if fabric is None else os.fspath(fabric))

    def close(self) -> None:
        """Stop serving and reading."""
        self._service.close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Exporter of {self.source} at {self.url}>"


def _ports_of_file(file: str) -> ObservedPorts:
    from softib.monitor.fabric_ports import ports_of, rows_of
    from softib.source import load

    fabric = load(file, notice=lambda line: None).fabric
    return ports_of(fabric, rows_of(fabric))
