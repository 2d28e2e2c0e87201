"""A fabric on one screen, round by round: what ``softib top`` is while it runs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from softib.api.shown import Suggests
from softib.errors import InputError, SoftibError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from softib.analysis.jobs.files import ScheduledJob
    from softib.diags.observations import Observations

__all__ = ["TopView"]


class TopView(Suggests):
    """Busiest, most waiting and erring ports of the running fabric or ``umad:DEVICE`` ``source``,
    and what the hosts of ``jobs`` (a file as :func:`jobs_on` takes it) do. A context manager.

    Raises :class:`InputError` for a source that is neither, :class:`UnreadableFile` and
    :class:`InputError` for a file that has no jobs.
    """

    orders: tuple[str, ...] = ("busy", "waiting", "errors", "jobs")

    def __init__(self, source: str, *, jobs: str | os.PathLike[str] | None = None):
        from softib.analysis.jobs.files import read_jobs
        from softib.monitor.opening import open_source
        from softib.monitor.watch import Watch

        self.source, self.order = source, "busy"
        self._jobs: list[ScheduledJob] | None = None if jobs is None else read_jobs(jobs)
        self.problem = ""
        """Why the last round failed ("": it did not)."""
        self._lost = False
        self._last_s = time.monotonic()
        self._opened = open_source(source)
        try:
            self._watch = Watch(self._opened)
        except BaseException:
            self._opened.close()
            raise

    def step(self) -> None:
        """Read one round. Where the fabric went down :attr:`problem` says so, the last round stays,
        and the next call looks for it again; before any round raises :class:`PeerError`."""
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
        """From now on by ``busy``, ``waiting`` or ``errors``, or the ``jobs``. Raises
        :class:`InputError` for another order."""
        if order not in self.orders:
            raise InputError(f"{order!r}: choose one of {', '.join(self.orders)}")
        self.order = order

    def screen(self, lines: int = 24, width: int = 120) -> RenderableType:
        """The last round for a Rich console of that many lines and columns."""
        from softib.render.top import top_screen

        return top_screen(
            self._watch, self.order, lines, width, self._jobs, self.problem, time.monotonic() - self._last_s
        )

    def text(self, width: int = 120, lines: int = 24) -> str:
        """The last round as plain text."""
        import io

        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, color_system=None).print(self.screen(lines, width))
        return out.getvalue()

    def to_json(self) -> dict[str, Any]:
        """The last round as ``softib top --json`` prints it (docs/schemas/top.schema.json)."""
        from softib.render.top import top_figures

        return top_figures(self._watch, self.source, self.order, self._jobs).to_json()

    @property
    def observations(self) -> Observations:
        """What its rounds told so far."""
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
