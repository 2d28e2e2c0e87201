"""Records of the cables that softib isolated on one subnet: when and why each was isolated, and when it was released.
They are stored in one file next to the exporter's memory of ports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from softib.analysis.isolation import End
from softib.errors import InputError, UnreadableFile, os_reason
from softib.input_files import json_document
from softib.monitor.seen_ports import locked, write_whole
from softib.result import HIDDEN, Result

__all__ = ["Isolated", "Records"]

MONTH_S = 30 * 86400.0
MOST = 1000


@dataclass(frozen=True)
class Isolated(Result):
    """One isolation of a cable."""

    cable: str
    port: str
    """The switch port that was disabled."""
    code: str
    """Code of the finding."""
    message: str
    begun: float
    """Time of the isolation, in seconds since 1970."""
    due: float
    """Time at which the cable is to be released for a trial, in seconds since 1970."""
    ended: float | None
    """Time of the release; null: the cable is still isolated."""
    why: str
    """Reason of the release; empty while the cable is isolated."""
    ends: tuple[End, End] = field(default=((0, 0), (0, 0)), metadata=HIDDEN)
    end: End = field(default=(0, 0), metadata=HIDDEN)

    @property
    def stands(self) -> bool:
        """Return whether the cable is isolated."""
        return self.ended is None


class Records:
    """The records of one subnet in :attr:`every`, the newest last."""

    def __init__(self, memory: Path):
        self.path = memory.with_name(f"isolated-{memory.name}")
        self.every: list[Isolated] = _load(self.path)

    @property
    def standing(self) -> list[Isolated]:
        """The isolations that have not ended."""
        return [r for r in self.every if r.stands]

    def times(self, ends: tuple[End, ...], now_s: float) -> int:
        """Return the number of isolations of a cable in the last thirty days."""
        return sum(set(r.ends) == set(ends) and r.begun > now_s - MONTH_S for r in self.every)

    def released_s(self, ends: tuple[End, ...]) -> float:
        """Return the time of a cable's last release, in seconds since 1970; 0: it was never released."""
        return max((r.ended for r in self.every if r.ended is not None and set(r.ends) == set(ends)), default=0.0)

    def add(self, one: Isolated) -> None:
        """Store an isolation. Raises :class:`InputError` if the file cannot be written."""
        self._write([*self.every, one])

    def release(self, one: Isolated, now_s: float, why: str) -> Isolated:
        """Store the release of a cable, and return the new record."""
        ended = replace(one, ended=now_s, why=why)
        self._write([ended if r is one else r for r in self.every])
        return ended

    def _write(self, every: list[Isolated]) -> None:
        """Write the file. Raises :class:`InputError` if this fails."""
        self.every = every[-MOST:]
        rows = [(r.cable, r.port, r.code, r.message, r.begun, r.due, r.ended, r.why, r.ends, r.end) for r in self.every]
        try:
            with locked(self.path):
                write_whole(self.path, json.dumps(rows))
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {os_reason(error)}") from None


def _load(path: Path) -> list[Isolated]:
    """Read the records. Raises :class:`UnreadableFile` for a damaged file, since otherwise ports would stay disabled
    unnoticed."""
    if not path.exists():
        return []
    try:
        return [_record(*row) for row in json_document(path, "record of isolated cables", "remove it")]
    except (OSError, ValueError, TypeError, IndexError):
        raise UnreadableFile(
            f"{path}: not a readable record of isolated cables; find disabled ports with iblinkinfo, enable them, and "
            f"remove the file"
        ) from None


def _record(
    cable: object, port: object, code: object, message: object, begun: float, due: float, *rest: Any
) -> Isolated:
    """Return a record with the values from a file. Raises :class:`ValueError` or :class:`TypeError` if they are
    invalid."""
    ended, why, ends, end = rest
    (a, b), texts = (_end(*e) for e in ends), [str(v) for v in (cable, port, code, message)]
    times = float(begun), float(due), None if ended is None else float(ended)
    return Isolated(texts[0], texts[1], texts[2], texts[3], *times, str(why), (a, b), _end(*end))


def _end(guid: int, number: int) -> End:
    return int(guid), int(number)
