"""A fabric over time: rounds of counters from a running fabric or umad device, from files or a
Prometheus server; and the last round on one screen (``softib top``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.errors import InputError
from softib.plural import counted

if TYPE_CHECKING:
    from softib.api.running.running import RunningFabric
    from softib.diags.managers.manager_health import ManagerRound
    from softib.diags.observations import Observations
    from softib.fabric.formats.base import Problem
    from softib.monitor.history import History
import time
from typing import TYPE_CHECKING

from softib.errors import SoftibError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from softib.analysis.jobs.files import ScheduledJob
    from softib.diags.observations import Observations

__all__ = ["Observed", "TopView", "observe"]


class TopView(Suggests):
    """The ports of ``source`` (a running fabric or ``umad:DEVICE``) with the highest loads, the longest waits and the
    most errors, and the activity of the hosts of ``jobs`` (a file as in :func:`jobs_on`). A context manager. Raises
    :class:`InputError` for another source, :class:`UnreadableFile` and :class:`InputError` for a file that has no jobs.
    """

    orders: tuple[str, ...] = ("busy", "waiting", "errors", "jobs")

    def __init__(self, source: str, *, jobs: str | os.PathLike[str] | None = None):
        from softib.analysis.jobs.files import read_jobs
        from softib.monitor.opening import open_source
        from softib.monitor.watch import Watch

        self.source, self.order = source, "busy"
        self._jobs: list[ScheduledJob] | None = None if jobs is None else read_jobs(jobs)
        self.problem = ""
        """Reason why the last round failed; "" if it succeeded."""
        self._lost = False
        self._last_s = time.monotonic()
        self._opened = open_source(source)
        try:
            self._watch = Watch(self._opened)
        except BaseException:
            self._opened.close()
            raise

    def step(self) -> None:
        """Read one round. If the fabric went down, :attr:`problem` reports it, the last round
        stays, and the next call retries. Without an earlier round, :class:`PeerError` is raised."""
        from softib.monitor.opening import open_source
        from softib.monitor.watch import Watch

        try:
            if self._lost:
                self._opened = open_source(self.source)
                watch = Watch(self._opened)
                self._lost = False
                watch.step()
                self._watch = watch
            else:
                self._watch.step()
        except SoftibError as error:
            if not self._lost:
                self._opened.close()
            if self._watch.round is None:
                raise
            self._lost, self.problem = True, str(error)
            return
        self.problem, self._last_s = "", time.monotonic()

    def sort(self, order: str) -> None:
        """Change the order to ``busy``, ``waiting`` or ``errors``, or show the ``jobs``. Raises
        :class:`InputError` for another order."""
        if order not in self.orders:
            raise InputError(f"{order!r}: choose one of {', '.join(self.orders)}")
        self.order = order

    def screen(self, lines: int = 24, width: int = 120) -> RenderableType:
        """Return the last round for a Rich console of ``lines`` lines and ``width`` columns."""
        from softib.render.top import top_screen

        return top_screen(
            self._watch, self.order, lines, width, self._jobs, self.problem, time.monotonic() - self._last_s
        )

    def text(self, width: int = 120, lines: int = 24) -> str:
        """Return the last round as plain text of at most ``lines`` lines of ``width`` characters."""
        import io

        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, color_system=None).print(self.screen(lines, width))
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        """Return the last round as ``softib top --json`` prints it
        (docs/schemas/top.schema.json)."""
        from softib.render.top import top_figures

        return top_figures(self._watch, self.source, self.order, self._jobs).to_json()

    @property
    def observations(self) -> Observations:
        """Observations of its rounds so far."""
        return self._watch.observations

    def close(self) -> None:
        """Stop reading."""
        if not self._lost:
            self._opened.close()

    def __enter__(self) -> TopView:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<TopView of {self.source} by {self.order}>"


ROWS = 4_000_000
"""Maximum product of ports and rounds for a history in memory; each port of a round takes about 300 bytes."""


LAST_NS = 2**63 - 1


class Observed(Suggests):
    """Result of observing. ``observations`` is the input table of the rules
    (:class:`softib.diags.observations.Observations`). ``problems`` are unreadable records of files,
    or devices that discovery could not use."""

    def __init__(
        self,
        observations: Observations,
        problems: Sequence[Problem | str] = (),
        rounds: Sequence[dict[str, Any]] = (),
        managers: Sequence[ManagerRound] = (),
    ):
        self.observations = observations
        self.problems: tuple[Problem | str, ...] = tuple(problems)
        self.rounds: tuple[dict[str, Any], ...] = tuple(rounds)
        """For each round: number of ``mads`` sent, ``seconds``, number of ``ports`` read, and ``silent`` devices.
        """
        self.managers: tuple[ManagerRound, ...] = tuple(managers)
        """State of the master subnet manager in each round
        (:class:`softib.diags.managers.manager_health.ManagerRound`); empty for files without it.
        """

    def __repr__(self) -> str:
        seen = self.observations
        return f"<Observed: {counted(len(seen.ports), 'port')} over {seen.intervals} intervals>"


def observe(
    *sources: str | os.PathLike[str] | RunningFabric,
    rounds: int = 2,
    every: float = 1.0,
    fabric: str | None = None,
    since: float | None = None,
    until: float | None = None,
    on_round: Callable[[dict[str, Any]], None] = lambda one: None,
) -> Observed:
    """Return counters over time, from one source or from two or more files.

    A running fabric or ``umad:DEVICE``: ``rounds`` rounds of Gets that start ``every`` seconds
    apart. Files: ibdiagnet's .db_csv from different times; or output of perfquery and
    ibqueryerrors, with ``fabric`` naming the file that describes the ports. ``http://HOST:PORT``: a
    Prometheus server that scrapes ``softib exporter``, queried for the last ``rounds`` × ``every``
    seconds; ``fabric`` provides the NodeGUIDs of HCAs. A directory: the history of ``softib
    exporter --history`` between the clock times ``since`` and ``until`` (seconds since 1970), at
    most its last 4 million ports times rounds; ``problems`` notes the limit. Raises
    :class:`InputError` for another source, :class:`PeerError` if there is no answer.
    """
    names = [os.fspath(s) if isinstance(s, str | os.PathLike) else s.name for s in sources]
    if not names:
        raise InputError(
            "observe needs a running fabric, umad:DEVICE, two files of different times, or a Prometheus server"
        )
    if rounds < 2:
        raise InputError(f"rounds={rounds}: an increase needs two readings; use 2 or more")
    from softib.monitor.opening import is_live

    if len(names) > 1 or (os.path.isfile(names[0]) and not is_live(names[0])):
        from softib.monitor.files import observations_of_files

        return Observed(*observations_of_files(names, fabric))
    one = names[0]
    if one.startswith(("http://", "https://")):
        from softib.monitor.prometheus import observations_of_server

        return Observed(observations_of_server(one, rounds, every, fabric))
    if os.path.isdir(one):
        from softib.monitor.history import History

        return _kept(History(one), since, until)
    return _rounds(one, rounds, every, on_round)


def _kept(history: History, since: float | None, until: float | None) -> Observed:
    """Return the history between the two times. If it is too large for memory, only the end is returned."""
    from datetime import UTC, datetime

    begin, end = (
        (0 if since is None else min(int(since * 1e9), LAST_NS)),
        (LAST_NS if until is None else min(int(until * 1e9), LAST_NS)),
    )
    first, fit, all_of = history.last_rounds(ROWS, begin, end)
    problems = [cut] if (cut := history.cut_files()) else []
    if fit < all_of:
        when = datetime.fromtimestamp(first / 1e9, UTC)
        problems.append(
            f"{history.folder}: the last {fit:,} of {all_of:,} rounds, from {when:%Y-%m-%d %H:%M:%S} UTC on; since "
            f"and until choose others"
        )
    managers = [r for r in history.manager_rounds() if first <= r.time_ns <= end]
    return Observed(history.observations(first, end), problems, managers=managers)


def _rounds(source: str, rounds: int, every: float, on_round: Callable[[dict[str, Any]], None]) -> Observed:
    import time

    from softib.monitor.opening import open_source
    from softib.monitor.watch import Watch

    opened = open_source(source)
    lines: list[dict[str, Any]] = []
    try:
        watch = Watch(opened, keep=rounds)
        for i in range(rounds):
            began = time.monotonic()
            r = watch.step()
            lines.append(
                {
                    "mads": r.mads,
                    "seconds": r.duration_s,
                    "ports": int(r.reading.answered.sum()),
                    "silent": len(r.silent),
                }
            )
            on_round(lines[-1])
            if i + 1 < rounds:
                time.sleep(max(0.0, began + every - time.monotonic()))
        problems = [*([opened.other_subnets] if opened.other_subnets else []), *watch.poller.problems]
        return Observed(watch.observations, problems, lines, tuple(watch.manager.rounds))
    finally:
        opened.close()
