"""Cabling lists, and an explanation of how their headings and rows are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from softib.api.records import Problem
from softib.plural import counted

if TYPE_CHECKING:
    from softib.api.fabric import Fabric
    from softib.fabric.formats.cabling.explain import PlanReading
    from softib.fabric.formats.cabling.match import NameProposal

__all__ = ["CablingList", "cabling_list"]


class CablingList:
    """A cabling list (CSV or Excel) as ``--plan`` reads it (:func:`cabling_list` reads one)."""

    def __init__(self, read: PlanReading):
        self._read = read

    @property
    def cables(self) -> int:
        """Number of cables in its rows."""
        return self._read.cables

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Rows that could not be used."""
        return self._read.problems

    def explain(self) -> str:
        """Return a text: the meaning of each heading, and how many rows could be used."""
        return "\n".join(self._read.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib convert --explain --json``."""
        return self._read.to_json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a point-to-point sheet in CSV. Raises :class:`InputError` if no row could be
        read, or the file cannot be written."""
        from softib.errors import UnreadableFile
        from softib.fabric.formats.cabling.plan import write_plan

        if self._read.plan is None:
            raise UnreadableFile(self._read.why)
        write_plan(self._read.plan, os.fspath(path))

    def match(self, fabric: Fabric | str | os.PathLike[str]) -> NameProposal:
        """Match the devices of the list to those of ``fabric`` by their cables, for lists with other names.
        ``.lines()`` shows the proposal, ``.write(path)`` writes it as a node-name-map. Raises :class:`InputError`
        if the cables imply no names, or if several sets of names are possible."""
        from softib.api.fabric import as_fabric, result_of
        from softib.errors import UnreadableFile
        from softib.fabric.formats.cabling.match import propose_names

        if self._read.plan is None:
            raise UnreadableFile(self._read.why)
        return propose_names(self._read.plan, result_of(as_fabric(fabric)).fabric)

    def __repr__(self) -> str:
        return f"<CablingList {self._read.path!r}: {counted(self.cables, 'cable')}>"


def cabling_list(path: str | os.PathLike[str]) -> CablingList:
    """Read a cabling list. If its headings are not understood, it has no cables, and
    :meth:`CablingList.explain` gives the reason. Raises :class:`UnreadableFile` if it is neither
    text nor a workbook."""
    from softib.fabric.formats.cabling.explain import read_headings

    return CablingList(read_headings(os.fspath(path)))
