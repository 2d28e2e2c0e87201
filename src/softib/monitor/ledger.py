"""Past and present faults of each cable and device: when each was first seen, how often it recurred, and who repaired
it and when. They are stored in one file next to the exporter's memory of ports (:mod:`softib.monitor.seen_ports`)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softib.errors import InputError, UnknownName, os_reason
from softib.input_files import json_document
from softib.monitor.seen_ports import locked, stamp_of, write_whole
from softib.monitor.sharding.shard import shard_memories

__all__ = ["Episode", "Fault", "Ledger", "Repair", "faults_of", "ledger_of", "repaired"]

MONTH_S = 30 * 86400.0
MOST = 100
"""Maximum number of episodes, and of repairs, that are kept for one cable or device; the newest are kept."""


@dataclass
class Episode:
    """One period of a fault: its beginning and end in seconds since 1970, and the ``codes`` of its findings."""

    first_s: float
    last_s: float
    codes: list[str]
    standing: bool = True


@dataclass(frozen=True)
class Repair:
    """A repair: person, time (seconds since 1970) and description."""

    time_s: float
    by: str
    note: str = ""


@dataclass
class Fault:
    """The faults of one cable or device. ``names``: those of the cable's ends, or of the device. ``series``: the labels
    with which its findings were last exported."""

    key: str
    names: list[str]
    series: list[list[str]] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)

    def times(self, now_s: float) -> int:
        """Return the number of episodes in the last thirty days."""
        return sum(e.last_s > now_s - MONTH_S for e in self.episodes)

    @property
    def standing(self) -> Episode | None:
        """The current episode; None: no fault."""
        return next((e for e in self.episodes if e.standing), None)

    @property
    def repaired_s(self) -> float:
        """Time of the last repair; 0: there was none."""
        return max((r.time_s for r in self.repairs), default=0.0)


def ledger_of(memory: Path) -> Path:
    """Return the path of the ledger of the exporter with this ``memory``."""
    return memory.with_name(f"ledger-{memory.name}")


class Ledger:
    """The faults by key (:attr:`faults`). They are stored in ``path`` (None: only in memory), and kept for ``keep_s``
    seconds after they were last seen (0: for ever)."""

    def __init__(
        self, path: Path | None = None, keep_s: float = 0.0, notice: Callable[[str], None] = lambda line: None
    ):
        self.path, self.keep_s, self.notice = path, keep_s, notice
        self.faults: dict[str, Fault] = {}
        self._stamp: tuple[int, int] | None = None
        self._unkept = False
        self.refresh()

    def refresh(self) -> None:
        """Read the file if another process has written it."""
        if self.path is not None and stamp_of(self.path) != self._stamp:
            self.faults = _load(self.path, self.notice)
            self._stamp = stamp_of(self.path)

    def step(self, findings: Iterable[tuple[str, Sequence[str], Sequence[str]]], now_s: float, holds_s: float) -> None:
        """Record the present faults. Each is (key, names, labels of the finding, of which the code is the first). A
        fault that is no longer present counts as present for another ``holds_s`` seconds."""
        with locked(self.path):
            self.refresh()
            present: set[str] = set()
            for key, names, labels in findings:
                fault = self.faults.setdefault(key, Fault(key, list(names)))
                fault.names = list(names)
                fault.series = [*(fault.series if key in present else ()), list(labels)]
                episode = fault.standing
                if episode is None:
                    episode = Episode(now_s, now_s, [])
                    fault.episodes = [*fault.episodes, episode][-MOST:]
                episode.last_s = now_s
                episode.codes = list(dict.fromkeys([*episode.codes, labels[0]]))
                present.add(key)
            for key, fault in self.faults.items():
                standing = fault.standing
                if standing is not None and key not in present and now_s - standing.last_s >= holds_s:
                    standing.standing = False
            if self.keep_s:
                oldest = now_s - self.keep_s
                self.faults = {
                    k: f for k, f in self.faults.items() if not f.episodes or f.episodes[-1].last_s >= oldest
                }
            self._save()

    def _save(self) -> None:
        if self.path is None:
            return
        try:
            _write(self.path, self.faults)
        except OSError as error:
            if not self._unkept:
                self.notice(f"{self.path}: cannot be written ({os_reason(error)}); a restart loses the ledger")
            self._unkept = True
        else:
            self._unkept = False
        self._stamp = stamp_of(self.path)


def faults_of(memory: Path) -> list[Fault]:
    """Return the faults in the ledgers of the exporter with this ``memory``, and of its shards."""
    return [f for m in shard_memories(memory) for f in Ledger(ledger_of(m)).faults.values()]


def repaired(memory: Path, names: Sequence[str], repair: Repair) -> list[Fault]:
    """Record in the ledgers that :func:`faults_of` reads that the cables or devices ``names`` (``leaf-1``,
    ``leaf-1[3]``) were repaired, and return their faults. Raises :class:`UnknownName` if no ledger contains a name."""
    with contextlib.ExitStack() as locks:
        ledgers = {}
        for path in map(ledger_of, shard_memories(memory)):
            locks.enter_context(locked(path))
            ledgers[path] = _load(path, lambda line: None)
        every = [f for faults in ledgers.values() for f in faults.values()]
        for name in names:
            if not any(name in f.names for f in every):
                raise UnknownName("cable or device in the ledger", name, sorted({n for f in every for n in f.names}))
        wanted = [f for f in every if set(names) & set(f.names)]
        for fault in wanted:
            fault.repairs = [*fault.repairs, repair][-MOST:]
            for episode in fault.episodes:
                episode.standing = False
        for path, faults in ledgers.items():
            if not any(f in faults.values() for f in wanted):
                continue
            try:
                _write(path, faults)
            except OSError as error:
                raise InputError(f"{path}: cannot be written: {os_reason(error)}") from None
    return wanted


def _write(path: Path, faults: dict[str, Fault]) -> None:
    write_whole(
        path,
        json.dumps(
            [
                (
                    f.key,
                    f.names,
                    f.series,
                    [(e.first_s, e.last_s, e.codes, e.standing) for e in f.episodes],
                    [(r.time_s, r.by, r.note) for r in f.repairs],
                )
                for f in faults.values()
            ]
        ),
    )


def _load(path: Path, notice: Callable[[str], None]) -> dict[str, Fault]:
    if not path.exists():
        return {}
    try:
        faults = (
            Fault(
                str(key),
                [str(n) for n in names],
                [[str(v) for v in labels] for labels in series],
                [Episode(float(a), float(z), [str(c) for c in codes], bool(s)) for a, z, codes, s in episodes],
                [Repair(float(t), str(by), str(note)) for t, by, note in repairs],
            )
            for key, names, series, episodes, repairs in json_document(path, "ledger of an exporter", "remove it")
        )
        return {f.key: f for f in faults}
    except (InputError, OSError, ValueError, TypeError):
        notice(f"{path}: cannot be read; starting a new ledger")
        return {}
