"""The support matrix: requirements that the facts of a host must meet, each with its source, from a TOML file. A site
can add a file."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any

from softib.errors import InputError, UnknownName
from softib.foreign_text import shown
from softib.host_facts.stack_facts import NAMES, HostStack, StackFact, is_name
from softib.input_files import read_text

__all__ = ["MatrixRow", "read_matrix", "requirements_of"]

MOST = 1 << 20
"""Largest size of a file in bytes."""
KEYS = ("fact", "kind", "minimum", "equals", "differs", "when", "source", "required", "remove")
CONDITIONS = ("minimum", "equals", "differs")


@dataclass(frozen=True)
class MatrixRow:
    """A requirement. ``required``: a host that lacks the fact does not meet it."""

    fact: str
    kind: str = ""
    minimum: str = ""
    equals: str = ""
    differs: str = ""
    when: dict[str, str] = field(default_factory=dict)
    source: str = ""
    required: bool = False
    remove: bool = False

    def applies(self, host: HostStack) -> bool:
        """Return whether the host has the facts of ``when``."""
        return all(any(fnmatchcase(v, pattern) for v in host.values(name)) for name, pattern in self.when.items())

    def concerns(self, fact: StackFact) -> bool:
        """Return whether the requirement applies to this fact."""
        return fact.name == self.fact and self.kind in ("", fact.kind)

    def met(self, value: str) -> bool:
        """Return whether the value meets the requirement."""
        if self.minimum:
            return _order(value) >= _order(self.minimum)
        return value == self.equals if self.equals else value != self.differs

    def __str__(self) -> str:
        if self.minimum:
            return f"{self.minimum} or more"
        return self.equals or f"not {self.differs}"


def _order(version: str) -> tuple[float, ...]:
    """Return the numbers in a version, for comparison."""
    if version == "unlimited":
        return (float("inf"),)
    return tuple(float(n) for n in re.findall(r"\d{1,15}", version)) or (-1.0,)


def read_matrix(path: str | os.PathLike[str] | None = None) -> list[MatrixRow]:
    """Return softib's rows, changed and extended by those of the file ``path``. Raises :class:`InputError` in one
    line."""
    builtin = _rows(files("softib.host_facts").joinpath("support_matrix.toml").read_text(), "support_matrix.toml")
    rows = {(r.fact, r.kind): r for r in builtin}
    if path is not None:
        where = shown(os.fspath(path))
        for number, row in enumerate(_rows(read_text(path, "support matrix", MOST), where), 1):
            if row.remove:
                _remove(rows, row, f"{where}: row {number}")
            else:
                rows[row.fact, row.kind] = row
    return list(rows.values())


def _remove(rows: dict[tuple[str, str], MatrixRow], row: MatrixRow, where: str) -> None:
    """Remove the row for a fact and a kind of adapter; without a kind, all rows for the fact."""
    matches = [key for key in rows if key[0] == row.fact and row.kind in ("", key[1])]
    if not matches:
        kinds = ", ".join(kind for fact, kind in rows if fact == row.fact and kind)
        listed = f"; the kinds with a row are {kinds}" if kinds else ""
        of_kind = f" of kind {shown(row.kind)[:40]!r}" if row.kind else ""
        raise InputError(f"{where}: no row of {row.fact!r}{of_kind} to remove{listed}")
    for key in matches:
        del rows[key]


def _rows(text: str, where: str) -> Iterator[MatrixRow]:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where}: {shown(str(error))}") from None
    listed = document.get("row", [])
    if not isinstance(listed, list) or set(document) - {"row"}:
        raise InputError(f"{where}: use [[row]] tables only")
    for number, row in enumerate(listed, 1):
        yield _row(row, f"{where}: row {number}")


def _row(row: Any, where: str) -> MatrixRow:
    if not isinstance(row, dict) or (unknown := sorted(set(row) - set(KEYS))):
        name = shown(str(unknown[0])) if isinstance(row, dict) else shown(str(row))
        raise InputError(f"{where}: unknown key {name[:40]!r}; use {', '.join(KEYS)}")
    for key, value in row.items():
        wanted: type = bool if key in ("required", "remove") else dict if key == "when" else str
        if not isinstance(value, wanted):
            raise InputError(f"{where}: {key}: use a {'text in quotation marks' if wanted is str else wanted.__name__}")
    if not row.get("fact") or not all(isinstance(v, str) for v in row.get("when", {}).values()):
        raise InputError(f'{where}: add the fact, for example fact = "firmware"; when: strings in quotation marks')
    for name in (row["fact"], *row.get("when", {})):
        if not is_name(name):
            raise InputError(f"{where}: {UnknownName('fact', shown(name)[:40], NAMES)}")
    if not row.get("remove") and sum(bool(row.get(c)) for c in CONDITIONS) != 1:
        raise InputError(f"{where}: use one of {', '.join(CONDITIONS)}")
    return MatrixRow(**row)


def requirements_of(host: HostStack, rows: list[MatrixRow]) -> Iterator[tuple[MatrixRow, StackFact | None]]:
    """Yield each requirement that the host does not meet, with the fact that conflicts with it (None: the host lacks
    the fact)."""
    for row in rows:
        if not row.applies(host):
            continue
        facts = [f for f in host.settings if row.concerns(f)]
        yield from ((row, f) for f in facts if not row.met(f.value))
        if row.required and not facts:
            yield row, None
