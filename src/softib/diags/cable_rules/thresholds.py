"""Thresholds of the rules, each with its source. They are in ``thresholds.yaml``; a user's file can replace single
thresholds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from softib.errors import InputError, UnknownName, UnreadableFile
from softib.input_files import read_text
from softib.plain_yaml import load_plain_yaml

__all__ = ["Threshold", "Thresholds", "load_thresholds", "shipped"]

SHIPPED = Path(__file__).with_name("thresholds.yaml")


@dataclass(frozen=True)
class Threshold:
    """A threshold: ``value`` in ``unit``, from ``source``."""

    value: float
    unit: str
    source: str


class Thresholds:
    """Thresholds by name: ``limits["ber_floor"]`` is the value, ``limits.of("ber_floor")`` has unit
    and source."""

    def __init__(self, entries: Mapping[str, Threshold]):
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> float:
        return self._entries[name].value

    def of(self, name: str) -> Threshold:
        """Return the threshold with unit and source."""
        return self._entries[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, in file order."""
        return tuple(self._entries)


@cache
def shipped() -> Thresholds:
    """Return the thresholds that softib ships."""
    return Thresholds({name: Threshold(**entry) for name, entry in yaml.safe_load(SHIPPED.read_text("utf-8")).items()})


def load_thresholds(given: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> Thresholds:
    """Return the shipped thresholds, with those in ``given`` (a YAML file or a mapping) replaced. Raises
    :class:`UnreadableFile` if the file is not a YAML mapping, :class:`UnknownName` and :class:`InputError` for an
    invalid entry.
    """
    base = shipped()
    if given is None:
        return base
    given_values, of = (given, "thresholds") if isinstance(given, Mapping) else (_read(given), os.fspath(given))
    entries = {name: base.of(name) for name in base.names}
    for name, entry in given_values.items():
        if name not in entries:
            raise UnknownName(f"threshold of {of}", str(name), entries)
        value = entry.get("value") if isinstance(entry, Mapping) else entry
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise InputError(
                f"{of}: {name}: {value!r} is not a threshold; use a number of {base.of(name).unit}, not below 0"
            )
        source = str(entry.get("source", of)) if isinstance(entry, Mapping) else str(of)
        entries[name] = Threshold(float(value), base.of(name).unit, source)
    return Thresholds(entries)


def _read(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    document = load_plain_yaml(read_text(os.fspath(path), "file of thresholds"), os.fspath(path), "file of thresholds")
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UnreadableFile(f"{os.fspath(path)}: not a file of thresholds; use lines like ber_floor: 1.0e-15")
    return document
