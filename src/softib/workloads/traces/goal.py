"""Reader and writer of GOAL schedules (Group Operation Assembly Language), text and binary, compatible with LogGOPSim's
tools. Source: Hoefler, Siebert, Lumsdaine, "Group Operation Assembly Language" (ICPP 2009); the binary format from
LogGOPSim's and LogGOPSim2's files. Computing times are nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from softib.errors import InputError
from softib.workloads.schedule.builder import Builder
from softib.workloads.schedule.schedule import MOST_OCTETS, MOST_PS, Kind, Schedule
from softib.workloads.traces.goal_binary import is_binary, portals_text, read_binary
from softib.workloads.traces.goal_text import read_columns
from softib.workloads.traces.portals import Counters

__all__ = ["read_goal", "write_goal"]

PS_PER_NS = 1000
ACKNOWLEDGED = "// softib: a send ends when it is acknowledged"
"""First line of softib's recordings. It sets :attr:`Schedule.acknowledged`; other tools read it as a comment."""
LONG = 1 << 20
"""Size of a text in bytes from which reading it with the kernel saves more time than compiling the kernel takes."""
LARGEST = {"size": MOST_OCTETS, "peer": 2**31 - 1, "tag": 2**63 - 1, "calc": MOST_PS // PS_PER_NS}
"""Limits of the numbers of an operation."""
_OP = re.compile(
    r"(?:(?P<label>\w+)\s*:\s*)?(?:"
    r"(?P<what>send|recv)\s+(?P<size>\d{1,99})b\s+(?:to|from)\s+(?P<peer>\d{1,99}|-1)(?:\s+tag\s+(?P<tag>\d{1,99}|-1))?"
    r"|calc\s+(?P<calc>\d{1,99}))"
    r"(?:\s+cpu\s+(?P<cpu>\d{1,99}))?(?:\s+nic\s+\d+)?\s*;?"
)
_REQUIRES = re.compile(r"(\w+)\s+(requires|irequires)\s+(\w+)\s*;?")
_RANK = re.compile(r"rank\s+(\d{1,99})\s*\{")
_RANKS = re.compile(r"num_ranks\s+(\d{1,99})\s*;?")
_COMMENT = re.compile(rb"/\*.*?\*/", re.S)


def read_goal(path: Path, data: bytes) -> Schedule:
    """Return the schedule in ``data``, the content of ``path``, text or binary. Raises
    :class:`InputError` with file, line, and the expected format."""
    if is_binary(data):
        text = portals_text(path, data)
        if text is None:
            return read_binary(path, data)
        data = text
    if b"/*" in data:
        data = _COMMENT.sub(lambda hit: b"\n" * hit[0].count(b"\n"), data)
    quick = read_columns(path.stem, data, data.startswith(ACKNOWLEDGED.encode())) if len(data) > LONG else None
    return _Text(path).read(data) if quick is None else quick


class _Text:
    """Reader of lines; ``labels`` of the current rank."""

    def __init__(self, path: Path):
        self.path, self.line, self.ranks = path, 0, -1
        self.build: Builder | None = None
        self.counters = Counters()
        self.rank = -1
        self.seen: set[int] = set()
        self.labels: dict[str, int] = {}
        self.waits: list[tuple[str, str, bool, int]] = []

    def wrong(self, problem: str) -> InputError:
        """Return an error at this line."""
        return InputError(f"{self.path}:{self.line}: {problem}")

    def read(self, data: bytes) -> Schedule:
        try:
            lines = data.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.path}: not a GOAL schedule: byte {error.start} is not UTF-8 text, and the file is not in the "
                "binary format; use a GOAL text or binary file"
            ) from None
        for self.line, raw in enumerate(lines, 1):
            text = raw.partition("//")[0].strip()
            if text:
                self._line(text)
        if self.build is None:
            raise InputError(f"{self.path}: not a GOAL schedule: no num_ranks line")
        if self.rank >= 0:
            raise InputError(f"{self.path}: rank {self.rank} does not end: a }} is missing")
        self.counters.close(self.build, self.path)
        return replace(self.build.schedule(self.path.stem), acknowledged=data.startswith(ACKNOWLEDGED.encode()))

    def _line(self, text: str) -> None:
        if self.build is None:
            hit = _RANKS.fullmatch(text)
            if not hit or int(hit[1]) < 1:
                raise self.wrong("a GOAL schedule begins with num_ranks N")
            self.ranks = int(hit[1])
            self.build = Builder(self.ranks)
        elif self.rank < 0:
            self._open(text)
        elif text == "}":
            self._close()
        elif hit := _OP.fullmatch(text):
            self._operation(hit)
        elif hit := _REQUIRES.fullmatch(text):
            self.waits.append((hit[1], hit[3], hit[2] == "irequires", self.line))
        elif self.counters.takes(text):
            label, row = self.counters.read(self.build, self.rank, text, self.wrong)
            self._label(label, row)
        else:
            raise self.wrong(
                f"{text!r} is not an operation; use for example 'l1: send 8b to 1 tag 0', 'l2: calc 100', "
                f"'l2 requires l1'"
            )

    def _open(self, text: str) -> None:
        hit = _RANK.fullmatch(text)
        if not hit:
            raise self.wrong(f"{text!r} is outside of a rank; use rank N {{")
        self.rank = int(hit[1])
        if self.rank >= self.ranks:
            raise self.wrong(f"rank {self.rank} of {self.ranks}: ranks are 0 to {self.ranks - 1}")
        if self.rank in self.seen:
            raise self.wrong(f"rank {self.rank} occurs twice")
        self.seen.add(self.rank)

    def _close(self) -> None:
        assert self.build is not None
        for who, on, start, line in self.waits:
            for name in (who, on):
                if name not in self.labels:
                    self.line = line
                    raise self.wrong(f"rank {self.rank} has no {name}")
            self.build.need(self.labels[who], self.labels[on], on_start=start)
        self.rank, self.labels, self.waits = -1, {}, []

    def _operation(self, hit: re.Match[str]) -> None:
        assert self.build is not None
        cpu = int(hit["cpu"] or 0)
        if cpu > 255:
            raise self.wrong(f"cpu {cpu}: a rank has at most 256 processors, 0 to 255")
        label = hit["label"] or ""
        for name, most in LARGEST.items():
            if hit[name] is not None and int(hit[name]) > most:
                where = f"rank {self.rank}, {label}" if label else f"rank {self.rank}"
                raise self.wrong(f"{where}: {name} {hit[name]} is more than {most:,}")
        if hit["calc"] is not None:
            row = self.build.compute(self.rank, int(hit["calc"]) * PS_PER_NS, processor=cpu, label=label)
        else:
            kind = Kind.SEND if hit["what"] == "send" else Kind.RECV
            row = self.build.message(
                kind, self.rank, int(hit["peer"]), int(hit["size"]), int(hit["tag"] or 0), processor=cpu, label=label
            )
        self._label(label, row)

    def _label(self, label: str, row: int) -> None:
        if label:
            if label in self.labels:
                raise self.wrong(f"{label} occurs twice in rank {self.rank}")
            self.labels[label] = row


def write_goal(s: Schedule, notes: Mapping[int, str] | None = None) -> str:
    """Return ``s`` as text that :func:`read_goal` (and LogGOPSim's txt2bin) reads; times are
    rounded to nanoseconds. ``notes``: comments before operations."""
    lines = [*([ACKNOWLEDGED] if s.acknowledged else []), f"num_ranks {s.ranks}", ""]
    begins = np.searchsorted(s.rank, np.arange(s.ranks + 1)).tolist()
    one = len(np.unique(s.processor)) < 2
    for r in range(s.ranks):
        lines += [f"rank {r} {{", *_lines(s, begins[r], begins[r + 1], notes or {}, one), "}", ""]
    return "\n".join(lines)


def _lines(s: Schedule, begin: int, end: int, notes: Mapping[int, str], one_processor: bool) -> Iterator[str]:
    """Return the lines of one rank: operations ``begin`` to ``end``."""
    part = slice(begin, end)
    needs = slice(int(s.first[begin]), int(s.first[end]))
    count = np.diff(s.first[begin : end + 1]).tolist()
    on = zip(s.on_start[needs].tolist(), (s.needs[needs] - begin + 1).tolist(), strict=True)
    ns = (s.compute_ps[part] / PS_PER_NS).round().astype(np.int64)
    columns = (s.kind[part], s.size[part], s.peer[part], s.tag[part], ns, s.processor[part])
    compute, send = int(Kind.COMPUTE), int(Kind.SEND)
    for i, (kind, size, peer, tag, took, processor) in enumerate(zip(*(c.tolist() for c in columns), strict=True), 1):
        if notes and begin + i - 1 in notes:
            yield "\n".join(f"// {line}" for line in notes[begin + i - 1].split("\n"))
        cpu = "" if one_processor else f" cpu {processor}"
        if kind == compute:
            yield f"l{i}: calc {took}{cpu}"
        else:
            verb, to = ("send", "to") if kind == send else ("recv", "from")
            yield f"l{i}: {verb} {size}b {to} {peer} tag {tag}{cpu}"
        for _ in range(count[i - 1]):
            start, before = next(on)
            yield f"l{i} {'irequires' if start else 'requires'} l{before}"
