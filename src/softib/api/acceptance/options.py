"""What :func:`softib.accept` measures, and how: options with their defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from softib.errors import InputError

if TYPE_CHECKING:
    from softib.diags.acceptance.measurements import PairTest

__all__ = ["AcceptOptions", "Options"]


class AcceptOptions(TypedDict, total=False):
    """Options of a run."""

    rounds: int | None
    """Of each class of pairs: same leaf, across spine, across core (4; None: until all have met).
    """
    tests: Sequence[str] | None
    """Names of :data:`softib.diags.acceptance.measurements.TESTS` (None: all)."""
    quick: bool
    """The loaded tests alone, two rounds."""
    program: str
    """``write``, ``send`` or ``read``: which programs of perftest."""
    size: int
    """Octets of a message of the bandwidth tests (1 MiB)."""
    seconds: float
    """That a program ought to send (1)."""
    at_once: int | None
    """Pairs at a time where each is to be alone on its links."""
    base_port: int
    """First TCP port for perftest's exchange (18515)."""
    seed: int
    """Of the draw of partners."""


@dataclass(frozen=True)
class Options:
    """:class:`AcceptOptions` with their defaults. Raises :class:`InputError` for what cannot be."""

    rounds: int | None = 4
    tests: Sequence[str] | None = None
    quick: bool = False
    program: str = "write"
    size: int = 1 << 20
    seconds: float = 1.0
    at_once: int | None = None
    base_port: int = 18515
    seed: int = 0

    def __post_init__(self) -> None:
        from softib.live.acceptance.perftest import PROGRAMS

        if self.program not in PROGRAMS:
            raise InputError(
                f"program {self.program!r}: perftest has {', '.join(PROGRAMS)} (ib_write_bw, ib_write_lat …)"
            )
        if self.size < 1 or not self.seconds > 0:
            raise InputError(f"size={self.size}, seconds={self.seconds:g}: both are above 0")

    @property
    def per_class(self) -> int | None:
        """Rounds of each class."""
        return min(2, self.rounds or 2) if self.quick else self.rounds

    @property
    def chosen(self) -> tuple[PairTest, ...]:
        """The tests. Raises :class:`UnknownName`."""
        from softib.diags.acceptance.measurements import QUICK, TESTS, tests_named

        return tests_named(self.tests or (QUICK if self.quick else TESTS))
