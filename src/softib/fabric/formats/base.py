"""Classes shared by all readers: problems, each with file, line and reason, and the result with all
records that could be read."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import UnreadableFile
from softib.fabric.model import Fabric
from softib.foreign_text import shown as on_one_line
from softib.input_files import content, shown_name
from softib.plural import counted
from softib.result import HIDDEN, Result

__all__ = [
    "LINE_LIMIT",
    "Junk",
    "Problem",
    "Problems",
    "ReadResult",
    "alike",
    "complain_if_not_closed",
    "decoded",
    "octets",
    "read_lines",
    "shown",
]

_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|0x[0-9a-fA-F]+|\d+")
"""Parts of a message that differ between similar problems: quoted text and numbers."""


@dataclass(frozen=True)
class Problem(Result):
    """A record that could not be read."""

    file: str
    line: int
    """Line number, counted from 1; 0 if the problem concerns the whole file."""
    reason: str
    code: str = field(default="", metadata=HIDDEN)
    """Code of the finding that a check reports for this problem; empty if no check reports it."""
    peer: str = field(default="", metadata=HIDDEN)
    """The node that the record names although the file does not describe it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", on_one_line(self.reason))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def alike(problems: Iterable[Problem]) -> list[list[Problem]]:
    """Group similar problems of one file; groups and their members keep the order of the file."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.file, _PARTICULAR.sub("…", problem.reason)), []).append(problem)
    return list(groups.values())


REPEATED = "repeats the record of"
"""Text that the reason of every problem about a repeated record contains. Such a record could be
read."""


class Problems(list[Problem]):
    """The problems of one file, in file order."""

    def __init__(self, file: str):
        super().__init__()
        self.file = shown_name(file)

    def add(self, line: int, reason: str, code: str = "", peer: str = "") -> None:
        """Append a problem at ``line`` with its ``reason``."""
        self.append(Problem(self.file, line, reason, code, peer))


@dataclass
class ReadResult:
    """A fabric, the problems of its file, and the name of the reader that read it.

    ``counts`` are the numbers that the *file* has, as defined by COUNTS.tsv of the test data:
    ``switches``, ``cas`` (including SHARP aggregation nodes), ``sharp_nodes``, ``links`` (including
    dangling records), ``listed_both_ends``, ``self_loops``, ``dangling``, ``system_links``.
    """

    fabric: Fabric
    problems: list[Problem]
    format: str
    counts: dict[str, int | None] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """Data for which the fabric has no column; each reader documents its entries."""
    notes: list[str] = field(default_factory=list)
    """Notes on valid content of the file that softib does not use. They are not problems."""


LINE_LIMIT = 16 << 10
"""Maximum length of a line in characters. The longest record of any format (a PM row of a .db_csv)
has about 2,000.
"""
MOST_LINES = 10_000_000
"""Maximum number of lines in a file. An ibnetdiscover dump of 50,000 hosts has 500,000."""

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def decoded(raw: bytes) -> bytes:
    """Return ``raw`` as UTF-8 text with ``\\n`` line ends, without a byte-order mark and without
    terminal colours."""
    wide = _WIDE.get(raw[:2])
    if wide:
        raw = raw[2:].decode(wide, "replace").encode("utf-8", "surrogatepass")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    if b"\x1b" in raw:
        raw = _ESCAPES.sub(b"", raw)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw


def read_lines(path: Path, problems: Problems) -> list[str]:
    """Return all lines without line ends. Raises :class:`UnreadableFile` if the file cannot be
    read. A line that is too long becomes an empty string and a problem.
    """
    got = content(path)
    data = decoded(got.data)
    if data.count(b"\n") > MOST_LINES:
        raise UnreadableFile(f"{problems.file}: more than {MOST_LINES:,} lines, the maximum of a fabric file")
    out = data.decode("utf-8", "surrogateescape").split("\n")
    for at in [i for i, line in enumerate(out) if len(line) > LINE_LIMIT]:
        problems.add(at + 1, f"line of {len(out[at])} characters is too long for a record: {shown(out[at][:80])}")
        out[at] = ""
    if got.flaw:
        problems.add(len(out), got.flaw)
    return out


def octets(text: str) -> bytes:
    """Return ``text`` as the bytes that the file contains."""
    return text.encode("utf-8", "surrogateescape")


def shown(value: str | bytes, width: int = 60) -> str:
    """Return ``value`` quoted for a message: printable, one line, at most ``width`` characters."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else octets(value).decode("utf-8", "replace")
    return repr(on_one_line(text.strip(), width))


class Junk:
    """Collect lines that are not records, so that a thousand lines of log text are reported as one
    problem."""

    def __init__(self, problems: Problems, kind: str):
        self.problems, self.what = problems, kind
        self.first = self.last = self.count = 0
        self.text = ""

    def add(self, number: int, line: str) -> None:
        """Add line ``number``, which is not a record."""
        if self.count and number > self.last + 1:
            self.flush()
        if not self.count:
            self.first, self.text = number, line
        self.last, self.count = number, self.count + 1

    def flush(self) -> None:
        """Report the collected lines as one problem."""
        if self.count == 1:
            self.problems.add(self.first, f"not {self.what}: {shown(self.text)}")
        elif self.count:
            self.problems.add(
                self.first,
                f"not {self.what} (nor the {counted(self.count - 1, 'line')} that follow): {shown(self.text)}",
            )
        self.count = 0


def complain_if_not_closed(lines: list[str], problems: Problems) -> None:
    """Report a truncated file. ibdiagnet2 writes one line when it creates a file and another when
    it closes it; in a truncated file, the second is missing."""
    if any(line.startswith("# File created at") for line in lines[:40]) and not any(
        line.startswith("# File closed at") for line in lines[-40:]
    ):
        problems.add(len(lines), "no 'File closed at' line: the file is truncated")
