"""Logs of a job, from any program, as one :class:`~softib.job_logs.events.JobLog`.

Files are streamed: memory holds one piece of a file, and one event for each symptom and pair of ends, however often it
is repeated. Each line is passed to every reader, so one file may contain lines of several programs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from softib.errors import InputError
from softib.foreign_text import NAME, shown
from softib.input_files import chunks, head, is_stdin, shown_name
from softib.job_logs.clock import time_of
from softib.job_logs.collectives import NCCL, PYTORCH
from softib.job_logs.events import SYMPTOMS, End, Event, JobLog, RankState
from softib.job_logs.flight_recorder import read_dump
from softib.job_logs.patterns import STATUS, SYNDROME, Pattern
from softib.job_logs.system import KERNEL, OPENSM, SHELL, SLURM, UFM
from softib.job_logs.verbs_programs import MPI, PERFTEST, UCX, VERBS

__all__ = ["READERS", "read_logs"]

READERS = (NCCL, PYTORCH, PERFTEST, UCX, MPI, KERNEL, SLURM, SHELL, OPENSM, UFM, VERBS)
"""The readers, in this order. The first one that matches a line makes the event."""

STARTING = frozenset(r.name for r in READERS if any(p.starts for p in r.patterns))
"""Readers that recognise the start of a program's work, so that a line at its end without a start says nothing."""

_BY_TRIGGER: dict[bytes, list[tuple[str, Pattern]]] = {}
for _reader in READERS:
    for _pattern in _reader.patterns:
        _BY_TRIGGER.setdefault(_pattern.trigger, []).append((_reader.name, _pattern))
_JOB, _ROCE = b"SLURM_JOB", b"/RoCE"
_TRIGGERS = sorted({*_BY_TRIGGER, _JOB, _ROCE}, key=lambda t: (-len(t), t))
_ANY = re.compile(b"|".join(re.escape(t) for t in _TRIGGERS))
SHORT_BLOCK = 65_536
"""Up to this size in bytes, the regular expression is faster than loading the search for many words at once."""
_ASCII = bytes(range(128)) + b"?" * 128
_ORDER = {reader.name: i for i, reader in enumerate(READERS)}

LINE_MOST = 4000
"""Number of bytes of a line that are examined."""
EVENTS_MOST = 20_000
"""Largest number of different events kept; a log with more has enough pairs already."""
CONTINUES_WITHIN = 4
"""Number of lines after an event that may still name its ends."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_JOB_ID = re.compile(r"SLURM_JOB_?ID=(\d{1,12})|SLURM_JOBID=(\d{1,12})")
_ON_ETHERNET = re.compile(r"([\w-]+:\d+)/RoCE")
_ON_INFINIBAND = re.compile(r":\d+/IB\b")
_LABEL = re.compile(
    r"^(?:(?P<host>(?=[\w-]*[\d.])[A-Za-z][\w.-]*): |\[\d+,\d+\](?:<std(?:out|err)>)?:|\[(?:rank|default) ?\d+\]:? ?|"
    r"\d{1,6}: )"
)
"""A label in front of each line: the name of a host (pdsh) or a rank (``srun --label``, ``mpirun --tag-output``,
torchrun)."""
_HOSTNAME = re.compile(r"^\[?([A-Za-z][\w-]*\d[\w.-]*):\d+[: ]")


def read_logs(paths: Sequence[str | os.PathLike[str]]) -> JobLog:
    """Return everything that the readers find in the files. Raises :class:`UnreadableFile` for a file that cannot be
    opened, :class:`InputError` if there is no file."""
    if not paths:
        raise InputError("no log is given; use at least one file, or - for standard input")
    log = JobLog()
    for path in paths:
        log.files.append(shown_name(path))
        if not is_stdin(path):
            written = os.stat(path).st_mtime if os.path.exists(path) else None
            if written is not None:
                log.written_s = max(written, log.written_s or 0.0)
        if head(path, 64).lstrip()[:1] in (b"{", b"\x80"):
            dump = read_dump(path)
            if dump is not None:
                log.ranks += dump
                continue
        _Scan(log, shown_name(path), log.written_s).read(chunks(path, log.problems))
    _add_rank_events(log)
    _demote_deaths(log)
    order = {symptom: i for i, symptom in enumerate(SYMPTOMS)}
    of_file = {name: i for i, name in enumerate(log.files)}
    log.events.sort(key=lambda e: (order[e.symptom], e.first_s or 0.0, of_file[e.file], e.line))
    return log


MIXED = "lines of several programs are mixed, so which ends belong together is unknown; use a file for each, or labels"
COMMUNICATION = frozenset({*STATUS.values(), "completion-error", "connect-failed", "address-unresolved"}) - {"flushed"}
"""Symptoms after which many programs end with a signal."""


def _demote_deaths(log: JobLog) -> None:
    """Treat signals after a communication error in the same log as its effect: the program or its launcher gave up. (If
    the death of a process caused the error, the log reports the death first, because the other processes have
    retries.)"""
    first: dict[str, Event] = {}
    for event in log.events:
        if event.symptom in COMMUNICATION and (event.file not in first or event.line < first[event.file].line):
            first[event.file] = event
    for event in log.events:
        error = first.get(event.file)
        if event.symptom != "process-died" or error is None or error.line > event.line:
            continue
        if error.first_s is None or event.first_s is None or error.first_s <= event.first_s:
            event.symptom = "aborted"


@dataclass
class _Stream:
    """The lines with one label: the lines of one process or host. ``last``: the last event and its line."""

    host: str = ""
    last: tuple[int, Event] | None = None
    open_ends: list[End] = field(default_factory=list)
    """Local ends of programs that have not printed the remote end yet."""
    answered: int = 0
    """Number of remote ends that were printed while several local ends were open."""
    mixed: bool = False
    """Whether lines of several programs are mixed, so that it is unknown which ends belong together."""
    pairs: list[tuple[End, End]] = field(default_factory=list)
    started: list[tuple[int, str, str]] = field(default_factory=list)
    """(line, reader, text) of each program that started its work and did not end it yet."""
    unfinished: list[tuple[int, str, str]] = field(default_factory=list)
    """The programs of :attr:`started` that did not end before the next one began."""
    completed: int = 0


class _Scan:
    """The scan of a log file."""

    def __init__(self, log: JobLog, name: str, written_s: float | None):
        self.log, self.name, self.line = log, name, 0
        self.year = time.localtime(written_s).tm_year
        self.events: dict[tuple[object, ...], Event] = {}
        self.streams: dict[str, _Stream] = {"": _Stream()}
        self.stream_of: list[tuple[Event, _Stream]] = []

    def read(self, pieces: Iterator[bytes]) -> None:
        rest = b""
        for piece in pieces:
            block = rest + piece
            cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            if not cut and len(block) < LINE_MOST * 4:
                rest = block
                continue
            self._block(block[: cut or len(block)])
            rest = block[cut:] if cut else b""
        self._block(rest)
        self.log.lines += self.line
        self._name_ends()
        self.log.events += self.events.values()
        if any(stream.mixed for stream in self.streams.values()):
            self.log.problems.append(f"{self.name}: {MIXED}")
        else:
            self._add_outcomes()
        pairs = dict.fromkeys(p for stream in self.streams.values() for p in stream.pairs)
        self.log.pairs += [p for p in pairs if p not in self.log.pairs]

    def _name_ends(self) -> None:
        """If a process has only one connection, assign its errors that name no ends to this connection."""
        for event, stream in self.stream_of:
            unnamed = not event.local or event.local == End(stream.host)
            if len(stream.pairs) == 1 and unnamed and not event.remote:
                event.local, event.remote = _merged(event.local, stream.pairs[0][0]), stream.pairs[0][1]

    def _add_outcomes(self) -> None:
        """Record the programs that ended normally, and those that neither did nor printed an error."""
        for stream in self.streams.values():
            self.log.completed += stream.completed
            failed = any(of is stream for _, of in self.stream_of)
            unfinished = stream.unfinished + stream.started
            for line, reader, text in [] if failed else unfinished[:1]:
                local, remote = stream.pairs[0] if len(stream.pairs) == 1 else (End(stream.host), End())
                self.log.events.append(
                    Event(
                        "no-result",
                        reader,
                        shown(text, 300),
                        self.name,
                        line,
                        len(unfinished),
                        local,
                        remote,
                    )
                )

    def _block(self, block: bytes) -> None:
        at, counted = 0, 0
        for offset in _offsets(block):
            if offset < at:
                continue
            begin = block.rfind(b"\n", 0, offset) + 1
            end = block.find(b"\n", offset)
            end = len(block) if end < 0 else end
            counted += block.count(b"\n", at, begin)
            self._one(block[begin : min(end, begin + LINE_MOST)], self.line + counted + 1)
            counted += 1 if end < len(block) else 0
            at = end + 1
        self.line += block.count(b"\n") + (1 if block and not block.endswith(b"\n") else 0)

    def _one(self, raw: bytes, line: int) -> None:
        text = _COLOUR.sub("", raw.decode("utf-8", "replace")).rstrip("\r\n")
        if b"SLURM_JOB" in raw and (job_id := _JOB_ID.search(text)):
            job = job_id[1] or job_id[2]
            if job not in self.log.job_ids:
                self.log.job_ids.append(job)
        ethernet = _ON_ETHERNET.search(text) if _ROCE in raw and not self.log.ethernet else None
        if ethernet and not _ON_INFINIBAND.search(text):
            self.log.ethernet = shown(ethernet[1], NAME)
        label = _LABEL.match(text)
        body = text[label.end() :] if label else ""
        for reader, pattern in _candidates(raw):
            if match := pattern.regex.search(text) or (pattern.regex.search(body) if label else None):
                self._take(reader, pattern, match, text, line, self._stream(label))
                return

    def _stream(self, label: re.Match[str] | None) -> _Stream:
        if label is None:
            return self.streams[""]
        if label[0] not in self.streams and len(self.streams) < EVENTS_MOST:
            self.streams[label[0]] = _Stream(shown(label["host"] or "", NAME))
        return self.streams.get(label[0], self.streams[""])

    def _take(self, reader: str, pattern: Pattern, match: re.Match[str], text: str, line: int, stream: _Stream) -> None:
        groups = {k: v for k, v in match.groupdict().items() if v}
        local, remote = _ends(groups)
        if not local.host and (named := _HOSTNAME.match(text)):
            local = replace(local, host=shown(named[1], NAME))
        elif stream.host and not local and not pattern.pair:
            local = End(stream.host)
        if local.host and local.host not in self.log.hosts and len(self.log.hosts) < EVENTS_MOST:
            self.log.hosts.append(local.host)
        if pattern.starts and len(stream.started) < EVENTS_MOST:
            stream.started.append((line, reader, text))
        if pattern.ends:
            _end(stream, reader, line - pattern.ends)
            return
        if pattern.pair:
            _pair(stream, local, remote)
            return
        if pattern.starts:
            return
        if pattern.continues:
            if stream.last and line - stream.last[0] <= CONTINUES_WITHIN * len(self.streams):
                event = stream.last[1]
                event.local, event.remote = _merged(event.local, local), _merged(event.remote, remote)
            return
        symptom = pattern.symptom or _symptom(groups)
        if not symptom:
            return
        if "begun" in groups or ("seq" in groups and "rank" in groups):
            self._rank(groups)
        when = time_of(text, self.year)
        detail = shown(groups.get("detail", ""), NAME)
        key = (symptom, reader, local, remote, detail, None if local or remote else id(stream))
        event_or_none = self.events.get(key)
        if event_or_none is None:
            if len(self.events) >= EVENTS_MOST:
                return
            event = Event(
                symptom=symptom,
                reader=reader,
                text=shown(text, 300),
                file=self.name,
                line=line,
                count=1,
                local=local,
                remote=remote,
                first_s=when,
                last_s=when,
                detail=detail,
            )
            self.events[key] = event
            self.stream_of.append((event, stream))
        else:
            event = event_or_none
            event.count += 1
            if when is not None:
                event.first_s = when if event.first_s is None else min(event.first_s, when)
                event.last_s = when if event.last_s is None else max(event.last_s, when)
        stream.last = (line, event)

    def _rank(self, groups: dict[str, str]) -> None:
        if len(self.log.ranks) < EVENTS_MOST:
            begun = int(groups.get("begun", groups.get("seq", "0")))
            ended = int(groups.get("ended", begun - 1))
            self.log.ranks.append(RankState(int(groups["rank"]), "", begun, ended, groups.get("detail", "")))


def _end(stream: _Stream, reader: str, latest: int) -> None:
    """Record that a program of this reader ended normally: the oldest one that started in line ``latest`` or before.
    One that started later did not end, and the line belongs to the next program.
    """
    at = next((i for i, (_, name, _) in enumerate(stream.started) if name == reader), -1)
    if at < 0:
        stream.completed += reader not in STARTING
    elif stream.started[at][0] <= latest:
        del stream.started[at]
        stream.completed += 1
    else:
        stream.unfinished.append(stream.started.pop(at))


def _pair(stream: _Stream, local: End, remote: End) -> None:
    """Record the ends that a program prints: the local one, then the remote one. If two programs have printed their
    local ends, the remote end may belong to either."""
    if (local.lid or local.gid) and local not in stream.open_ends and len(stream.open_ends) < EVENTS_MOST:
        stream.open_ends.append(local)
    if not (remote.lid or remote.gid):
        return
    possible = [end for end in stream.open_ends if end != remote]
    for pair in ((end, remote) for end in possible):
        if pair not in stream.pairs and len(stream.pairs) < EVENTS_MOST:
            stream.pairs.append(pair)
    if len(possible) == 1:
        stream.open_ends.remove(possible[0])
    elif possible:
        stream.mixed = True
        stream.answered += 1
        if stream.answered >= len(stream.open_ends):
            stream.open_ends, stream.answered = [], 0


def _offsets(block: bytes) -> Iterable[int]:
    """Return the offsets of literals in ``block``, in order: at least one offset for each line that contains a
    literal."""
    if len(block) <= SHORT_BLOCK:
        return (match.start() for match in _ANY.finditer(block))
    import polars as pl

    text = block.translate(_ASCII).decode("ascii")  # keeps one character per byte
    return pl.Series([text]).str.find_many([t.decode() for t in _TRIGGERS])[0].to_list()


def _candidates(raw: bytes) -> list[tuple[str, Pattern]]:
    """Return the patterns whose literal is in the line, in the order of the readers."""
    some = [one for trigger, several in _BY_TRIGGER.items() if trigger in raw for one in several]
    return sorted(some, key=lambda one: _ORDER[one[0]])


def _symptom(groups: dict[str, str]) -> str:
    if "synd" in groups:
        return STATUS.get(SYNDROME.get(int(groups["synd"], 16), 0), "")
    if "status" in groups:
        return STATUS.get(int(groups["status"][:6]), "")
    return next((s for part, s in _STATUS_TEXTS if part in groups.get("statustext", "")), "")


_STATUS_TEXTS = (
    ("transport retry", "retry-exceeded"),
    ("RNR retry", "receiver-not-ready"),
    ("remote access", "remote-access"),
    ("remote invalid", "invalid-request"),
    ("remote operation", "remote-operation"),
    ("local protection", "local-protection"),
    ("local length", "local-length"),
    ("Flushed", "flushed"),
)


def _ends(groups: dict[str, str]) -> tuple[End, End]:
    def lid(name: str) -> int:
        if name + "_decimal" in groups:
            return _lid(groups[name + "_decimal"], 10)
        return _lid(groups.get(name, ""), 16)

    gid = groups.get("gid", "")
    gid = f"fe80::{groups['guid']}" if not gid and "guid" in groups else gid
    local = End(shown(groups.get("host", ""), NAME), groups.get("dev", ""), _gid(gid), lid("lid"))
    remote = End(shown(groups.get("rhost", ""), NAME), "", _gid(groups.get("rgid", "")), lid("rlid"))
    return local, remote


def _lid(text: str, base: int) -> int:
    try:
        lid = int(text, base) if text else 0
    except ValueError:
        return 0
    return lid if 0 < lid < 0xC000 else 0


def _gid(text: str) -> str:
    """Return a GID in IPv6 notation; "" if ``text`` is no GID, or is ``::``."""
    import ipaddress

    if "." not in text and text.count(":") < 2:
        if re.fullmatch(r"fe80::[0-9a-f]{16}", text):
            text = "fe80::" + ":".join(text[6 + i : 10 + i] for i in (0, 4, 8, 12))
        else:
            return ""
    elif re.fullmatch(r"fe80::[0-9a-f]{16}", text):
        text = "fe80::" + ":".join(text[6 + i : 10 + i] for i in (0, 4, 8, 12))
    try:
        address = ipaddress.IPv6Address(text.rstrip(":.") if text.count("::") > 1 else text)
    except ValueError:
        return ""
    return "" if address == ipaddress.IPv6Address(0) else str(address)


def _merged(one: End, other: End) -> End:
    return End(one.host or other.host, one.device or other.device, one.gid or other.gid, one.lid or other.lid)


def _add_rank_events(log: JobLog) -> None:
    """Add the combined state of the ranks: some are in earlier collectives than the others, or all are in one."""
    by_group: dict[str, dict[int, RankState]] = {}
    for state in log.ranks:
        ranks = by_group.setdefault(state.group, {})
        old = ranks.get(state.rank)
        if old is None or (state.begun, state.ended) > (old.begun, old.ended):
            ranks[state.rank] = state
    for group, ranks in sorted(by_group.items()):
        if len(ranks) < 2 or (stuck := _stuck(list(ranks.values()))) is None:
            continue
        symptom, text, detail = stuck
        log.events.append(
            Event(symptom, "PyTorch", shown(f"{group}: {text}" if group else text, 300), log.files[0], 0, detail=detail)
        )


def _stuck(states: list[RankState]) -> tuple[str, str, str] | None:
    most = max(s.begun for s in states)
    if all(s.ended >= most for s in states):
        return None
    behind = sorted(s.rank for s in states if s.begun < most and s.ended == s.begun)
    last = {s.operation for s in states if s.begun == most and s.operation}
    if behind and len(behind) < len(states):
        some = ", ".join(map(str, behind[:8])) + (" …" if len(behind) > 8 else "")
        return (
            "rank-behind",
            f"collective {most}: ranks {some} ended their last one and did not begin it",
            f"ranks {some}",
        )
    if len(last) > 1:
        return "collective-mismatch", f"collective {most}: {' and '.join(sorted(last)[:3])}", ""
    if all(s.begun == most for s in states):
        return "collective-stuck", f"collective {most}: all {len(states)} ranks began it, but none ended it", ""
    return None
