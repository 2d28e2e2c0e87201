"""The journal of an acceptance run: one line of JSON for its plan, then one line for each finished
batch. Records remain if the run is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from softib.errors import InputError, UnreadableFile, os_reason
from softib.input_files import FILE_LIMIT, read_text
from softib.plain_values import load_json

__all__ = ["KEY", "Journal", "JournalContent", "read_journal"]

KEY = "softib_accept_journal"
VERSION = 1


class JournalContent(NamedTuple):
    """The content of a journal."""

    plan: dict[str, Any]
    entries: list[dict[str, Any]]
    """One for each finished batch."""


def read_journal(path: str | os.PathLike[str]) -> JournalContent:
    """Return the plan and the entries. An incomplete last line is ignored. Raises :class:`UnreadableFile` if
    the file is not a journal."""
    rows = list(_parsed(read_text(path, "journal", FILE_LIMIT, "replace").splitlines()))
    if not rows or not isinstance(rows[0], dict) or rows[0].get(KEY) != VERSION:
        raise UnreadableFile(f"{os.fspath(path)}: not a journal of softib accept; use the file that --journal wrote")
    return JournalContent(rows[0], [r for r in rows[1:] if isinstance(r, dict)])


def _parsed(lines: list[str]) -> Iterator[Any]:
    for line in lines:
        try:
            yield load_json(line)
        except ValueError:
            return  # incomplete: the run was killed while it wrote


class Journal:
    """Appends entries; each is on disk before the next batch begins. ``path`` None: keeps them only in memory."""

    def __init__(self, path: str | os.PathLike[str] | None, plan: Mapping[str, Any], resume: bool = False):
        self.plan = {KEY: VERSION, **plan}
        self.entries: list[dict[str, Any]] = []
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        if self._path.exists():
            if not resume:
                raise InputError(f"{path}: already exists; add --resume to continue it, or use another --journal")
            self._go_on()
        else:
            self._write([self.plan])

    def _go_on(self) -> None:
        assert self._path is not None
        before, entries = read_journal(self._path)
        odd = [k for k in self.plan if before.get(k) != json.loads(json.dumps(self.plan[k]))]
        if odd:
            raise InputError(
                f"{self._path}: the journal is of a run with another {odd[0]}; resume with the same arguments, or use "
                f"another --journal"
            )
        self.entries = entries
        self._write([before, *entries])  # this removes an incomplete last line

    def _write(self, rows: list[Any]) -> None:
        assert self._path is not None
        temporary = self._path.with_name(f"{self._path.name}.new")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise InputError(f"{self._path}: cannot write: {os_reason(error)}") from None

    def add(self, entry: dict[str, Any]) -> None:
        """Add a finished batch."""
        self.entries.append(entry)
        if self._path is None:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self._path}: cannot write: {os_reason(error)}") from None
