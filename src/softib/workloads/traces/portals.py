"""Operations of Portals 4 in a GOAL text: put, append, triggered put, and tests of counters
(LogGOPSim2's extension).

An append is a receive for which other operations need not wait. A counter counts the messages that arrived for its
appends, and completed puts of its rank. An operation that waits for a counter waits for all operations that the counter
counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from softib.errors import InputError
from softib.workloads.schedule.builder import Builder
from softib.workloads.schedule.schedule import Kind

__all__ = ["Counters"]

_ARGS = r"(?:\s+(?:arg[1-4]|hh|ph|ch|mem)\s+\d+)*"
_LABEL = r"(?:(?P<label>\w+)\s*:\s*)?"
_WHEN = r"(?:\s+when\s+(?P<when>\d{1,18})\s+reaches\s+(?P<value>\d{1,18}))?"
_PUT = re.compile(
    rf"{_LABEL}t?put\s+(?P<size>\d{{1,18}})b\s+to\s+(?P<peer>\d{{1,18}}){_ARGS}{_WHEN}"
    rf"(?:\s+ct\s+(?P<ct>\d{{1,18}}))?\s+tag\s+(?P<tag>\d{{1,18}})\s*;?"
)
_APPEND = re.compile(
    rf"{_LABEL}t?append\s+(?P<size>\d{{1,18}})b\s+to\s+(?:priority|overflow)_list{_ARGS}"
    rf"\s+allowed\s+(?P<peer>\d{{1,18}}){_WHEN}(?:\s+ct\s+(?P<ct>\d{{1,18}}))?"
    r"(?:\s+use_once)?\s+tag\s+(?P<tag>\d{1,18})\s*;?"
)
_TEST = re.compile(rf"{_LABEL}test\s+(?P<when>\d{{1,18}})\s+for\s+(?P<value>\d{{1,18}})\s*;?")
_GET = re.compile(r"(?:\w+\s*:\s*)?t?get\s.*")
Wrong = Callable[[str], InputError]


class Counters:
    """The counters of all ranks: which operations each counts, and which operations wait for it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], list[int]] = {}
        self._awaits: list[tuple[int, int, int, int]] = []

    def takes(self, text: str) -> bool:
        """Return whether ``text`` is an operation of Portals."""
        return any(form.fullmatch(text) for form in (_PUT, _APPEND, _TEST, _GET))

    def read(self, build: Builder, rank: int, text: str, wrong: Wrong) -> tuple[str, int]:
        """Return (label, row) of the operation in ``text``."""
        if hit := _PUT.fullmatch(text):
            row = build.message(
                Kind.SEND, rank, int(hit["peer"]), int(hit["size"]), int(hit["tag"]), label=hit["label"] or ""
            )
            self._note(rank, hit, row, row)
        elif hit := _APPEND.fullmatch(text):
            row = build.compute(rank, 0, label=hit["label"] or "")
            comes = build.message(
                Kind.RECV, rank, int(hit["peer"]), int(hit["size"]), int(hit["tag"]), label=hit["label"] or ""
            )
            build.need(comes, row)
            self._note(rank, hit, comes, row)
        elif hit := _TEST.fullmatch(text):
            row = build.compute(rank, 0, label=hit["label"] or "")
            self._awaits.append((rank, int(hit["when"]), int(hit["value"]), row))
        else:
            raise wrong("a get of Portals is not supported; use put, append, tput, tappend and test")
        return hit["label"] or "", row

    def _note(self, rank: int, hit: re.Match[str], counted: int, waits: int) -> None:
        if hit["ct"] is not None:
            self._counts.setdefault((rank, int(hit["ct"])), []).append(counted)
        if hit["when"] is not None:
            self._awaits.append((rank, int(hit["when"]), int(hit["value"]), waits))

    def close(self, build: Builder, path: Path) -> None:
        """Add the dependencies on counted operations. Raises :class:`InputError` if a counter
        never reaches its value, or if the order of arrival is unknown."""
        for rank, counter, value, row in self._awaits:
            counted = [c for c in self._counts.get((rank, counter), []) if c != row]
            if len(counted) < value:
                raise InputError(
                    f"{path}: rank {rank} waits for counter {counter} to reach {value}; it counts to {len(counted)}"
                )
            if len(counted) > value:
                raise InputError(
                    f"{path}: rank {rank} waits for {value} of {len(counted)} on counter {counter}: the order of "
                    f"arrival is not known before a run"
                )
            for c in counted:
                build.need(row, c)
