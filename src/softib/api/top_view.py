"""A fabric on one screen, round by round: what ``softib top`` is while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softib.api.shown import Suggests
from softib.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from softib.diags.observations import Observations

__all__ = ["TopView"]


class TopView(Suggests):
    """Busiest, most waiting and erring ports of the running fabric or ``umad:DEVICE`` ``source``. A context manager.

    Raises :class:`InputError` for a source that is neither, :class:`PeerError` from :meth:`step` where the fabric went down.
    """

    orders: tuple[str, ...] = ("busy", "waiting", "errors")

    def __init__(self, source: str):
        from softib.monitor.opening import open_source
        from softib.monitor.watch import Watch

        self.source, self.order = source, "busy"
        self._opened = open_source(source)
        try:
            self._watch = Watch(self._opened)
        except BaseException:
            self._opened.close()
            raise

    def step(self) -> None:
        """Read one round."""
        self._watch.step()

    def sort(self, order: str) -> None:
        """From now on by ``busy``, ``waiting`` or ``errors``. Raises :class:`InputError` for another order."""
        if order not in self.orders:
            raise InputError(f"{order!r}: ports are sorted by {', '.join(self.orders)}")
        self.order = order

    def screen(self, lines: int = 24) -> RenderableType:
        """The last round for a Rich console of that many lines."""
        from softib.render.top import top_screen

        return top_screen(self._watch, self.order, lines)

    def text(self, width: int = 120, lines: int = 24) -> str:
        """The last round as plain text."""
        import io

        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=width, color_system=None).print(self.screen(lines))
        return out.getvalue()

    @property
    def observations(self) -> Observations:
        """What its rounds told so far."""
        return self._watch.observations

    def close(self) -> None:
        """Stop reading."""
        self._opened.close()

    def __enter__(self) -> TopView:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<TopView of {self.source} by {self.order}>"
