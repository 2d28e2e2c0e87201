"""A fabric as users hold it: read from a source or generated, never changed by what is asked of it."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.progress import Notice, Steps, Timed, silent
from softib.api.table import Table, library
from softib.errors import InputError, UnknownName
from softib.plural import counted
from softib.source import warn

if TYPE_CHECKING:
    import networkx

    from softib.api.graph import Drawing
    from softib.api.node import Node
    from softib.fabric import model
    from softib.fabric.formats.base import Problem, ReadResult
    from softib.fabric.node_finder import NodeFinder
    from softib.fabric.topologies.params import Kind

__all__ = ["Fabric", "as_fabric", "generate", "load", "running", "topologies"]

KINDS = ("nodes", "ports", "links")
"""Tables that every fabric has."""


class Fabric(Suggests):
    """One InfiniBand fabric: its devices, cables, and what its source records of them.

    Made by :func:`load`, :func:`generate` and :func:`running`. Whatever is asked of it (``check``,
    ``route``, ``report``) works on a copy: a fabric stays as it was read.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> tree
    <Fabric 'fat-tree': 6 switches, 8 hosts, 16 cables>
    >>> tree.switches, tree.hosts, tree.cables
    (6, 8, 16)
    """

    def __init__(self, result: ReadResult, source: str, chosen: dict[str, Any] | None = None):
        self._result, self.source, self._chosen = result, source, chosen
        self._seconds: dict[str, float] = {}
        self._tables: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Node | dict[str, Any]:
        """``fabric["leaf-1"]``: the :class:`Node` of this name or GUID; ``fabric["leaf-1[3]"]``:
        the row of that port.

        Raises :class:`UnknownName` with the near names, :class:`InputError` for a name that several
        have.
        """
        from softib.api.node import item_of

        return item_of(self, name)

    def __contains__(self, name: object) -> bool:
        """Is there a node or port of this name?"""
        if not isinstance(name, str):
            return False
        try:
            return bool(self._finder.rows(name))
        except UnknownName:
            try:
                return bool(self[name])
            except InputError:
                return False

    __iter__ = None

    @cached_property
    def _finder(self) -> NodeFinder:
        from softib.fabric.node_finder import NodeFinder

        return NodeFinder(self._result.fabric)

    @property
    def name(self) -> str:
        """The fabric's name, or its source where it has none."""
        return self._result.fabric.name or self.source

    @property
    def format(self) -> str:
        """Format of the source (``ibnetdiscover``, ``topo``, ``running`` …)."""
        return self._result.format

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What in the source could not be read: file, line, reason."""
        return tuple(self._result.problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """What softib does not use of a source that is in order."""
        return tuple(self._result.notes)

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time of reading it."""
        return dict(self._seconds)

    @property
    def arrays(self) -> model.Fabric:
        """The columns behind it (:mod:`softib.fabric.columns`), a copy that is yours to change."""
        return self._result.fabric.copy()

    @property
    def switches(self) -> int:
        """How many switches it has."""
        return self._result.fabric.sizes.switches

    @property
    def hosts(self) -> int:
        """How many adapters of hosts it has: channel adapters without SHARP aggregation nodes."""
        return int(self._result.fabric.is_host.sum())

    @property
    def adapters(self) -> int:
        """How many channel adapters it has, SHARP aggregation nodes among them."""
        return len(self._result.fabric.cas)

    @property
    def cables(self) -> int:
        """How many cables it has."""
        return self._result.fabric.sizes.cables

    def table(self, kind: str = "nodes") -> Table:
        """``nodes``, ``ports`` or ``links`` as a table.

        Raises :class:`UnknownName` for another kind.
        """
        from softib.analysis import columns

        if kind not in KINDS:
            raise UnknownName("table of a fabric", kind, KINDS)
        if kind not in self._tables:
            self._tables[kind] = Table(getattr(columns, kind)(self._result.fabric))
        return self._tables[kind]

    @property
    def nodes(self) -> Table:
        """One row a device: name, type, GUIDs, ports, device and vendor, firmware and temperature
        where recorded."""
        return self.table("nodes")

    @property
    def ports(self) -> Table:
        """One row a port: node, number, label, GUID, LID, state, speed, width, Gb/s, and what its
        cable leads to."""
        return self.table("ports")

    @property
    def links(self) -> Table:
        """One row a cable between two ports: both ends, speed, lanes, Gb/s, length, medium, bit
        error rate."""
        return self.table("links")

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> tuple[str, ...]:
        """Write it to ``path``; the format is that of the suffix, unless it is named
        (``ibnetdiscover``, ``ibsim``, ``topo`` …).

        Returns what had to be changed so that the format's readers can load it, a line each. Raises
        :class:`UnknownFormat`, :class:`UnknownName`, :class:`UnreadableFile` where the file cannot
        be written.
        """
        from softib.fabric.formats import registry

        return tuple(registry.write(self._result.fabric, os.fspath(path), format))

    def to_yaml(self) -> str:
        """The fabric.yaml of a generated fabric. Raises :class:`InputError` for one that was read."""
        from softib.fabric.topologies.registry import spec_text

        return spec_text(self._result.fabric, self._chosen)

    def to_networkx(self) -> networkx.MultiGraph:
        """A multigraph: nodes by name with ``type`` and ``guid``, an edge a cable with ``ports``,
        ``gbps``, ``length_m``.

        Two devices of one name are distinguished by their GUID.
        """
        from softib.api.graph import multigraph

        return multigraph(self._result.fabric, library("networkx", "notebook"))

    def plot(self) -> Drawing:
        """Its switches and cables as SVG, faults marked: a notebook shows it, ``.save(path)``
        writes it."""
        from softib.analysis.pipeline import checked
        from softib.api.graph import drawing

        return drawing(checked(self.source, self._result))

    @cached_property
    def _summary(self) -> dict[str, str]:
        from softib.analysis import columns

        rates = columns.rate_counts(self._result.fabric)
        return {
            "source": f"{self.source} ({self.format})",
            "switches": f"{self.switches:,}",
            "hosts": f"{self.hosts:,}",
            "cables": f"{self.cables:,}",
            "links": ", ".join(f"{n:,} × {rate}" for rate, n in rates.items()) or "speeds not recorded",
            "not read": f"{counted(len(self.problems), 'record')}" if self.problems else "",
        }

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(k)}</th><td "
            f"style='text-align:left'>{html.escape(v)}</td></tr>"
            for k, v in self._summary.items()
            if v
        )
        return f"<table><caption><b>{html.escape(self.name)}</b></caption>{rows}</table>"

    def __repr__(self) -> str:
        return (
            f"<Fabric {self.name!r}: {counted(self.switches, 'switch')}, {counted(self.hosts, 'host')}, "
            f"{counted(self.cables, 'cable')}>"
        )


def load(
    source: str | os.PathLike[str],
    *,
    ibnl: Sequence[str | os.PathLike[str]] = (),
    node_name_map: str | os.PathLike[str] | None = None,
    notice: Notice = warn,
    steps: Steps | None = None,
    progress: Notice = silent,
) -> Fabric:
    """Read ``source``: a file of any known format (found by content), a fabric.yaml, the name of a
    running fabric, or ``umad:DEVICE``, the subnet behind that port (``umad:mlx5_0``; ``umad:`` is
    the first port that is up), read by Gets alone.

    ``ibnl`` are directories of IBNL system descriptions that a ``.topo`` needs; ``node_name_map``
    is OpenSM's file of names. ``notice`` gets what a user should know though nothing is wrong
    (default: a :class:`SoftibWarning`); ``progress`` gets a line again and again while a subnet is
    read: nodes and MADs. Raises :class:`InputError` or a related error, one line each: what, where, what
    would be right.
    """
    from softib.source import load as read

    name = _path_of(source)
    names = None if node_name_map is None else os.fspath(node_name_map)
    timed = Timed(steps)
    with timed("reading"):
        fabric = Fabric(read(name, [os.fspath(d) for d in ibnl], names, notice=notice, progress=progress), name)
    fabric._seconds = timed.seconds
    return fabric


def _path_of(source: Any) -> str:
    """``source`` as text. Raises :class:`InputError` for what is no path, with the function that
    takes it."""
    if isinstance(source, str | os.PathLike):
        return os.fsdecode(source)
    kind = type(source).__name__
    if isinstance(source, Fabric):
        raise InputError(
            f"load takes a path, and {source!r} is a fabric already; give it to check, route, report … as it is"
        )
    if isinstance(source, dict):
        raise InputError("load takes a path, not a dict; softib.generate(KIND, …) makes a fabric of parameters")
    if isinstance(source, bytes):
        raise InputError("load takes a path, not bytes; write them to a file, or give the name as text")
    if hasattr(source, "read"):
        raise InputError("load takes a path, not an open file; give its name, or '-' for standard input")
    raise InputError(f"load takes the path of a file or the name of a running fabric, not {kind}")


def generate(kind: str, **parameters: Any) -> Fabric:
    """The fabric of topology ``kind`` (``fat-tree``, ``torus``, ``dragonfly+`` …), powered on;
    :func:`topologies` lists them.

    Raises :class:`UnknownName` for a kind or parameter that does not exist (with the near ones),
    :class:`TopologyError` for an impossible one.
    """
    from softib.fabric.formats.base import ReadResult
    from softib.fabric.topologies.registry import generate as build

    fabric = build(kind, **parameters)
    fabric.name = fabric.name or kind
    return Fabric(ReadResult(fabric, [], "generated"), f"generate {kind}", parameters)


def topologies() -> dict[str, Kind]:
    """Every kind that :func:`generate` knows, by name: ``doc``, ``source``, and ``all_parameters``,
    each with ``name``, ``form``, ``doc``, ``default`` and ``required``."""
    from softib.fabric.topologies.registry import kinds

    return dict(kinds())


def running(name: str | None = None) -> Fabric:
    """A copy of the running fabric ``name`` (default: the only one) as it stands now, tables and
    counters with it.

    Raises :class:`UnknownName` where none of that name runs.
    """
    from softib.live.instances import find
    from softib.live.snapshot import read

    instance = find(name)
    return Fabric(read(instance), instance.name)


def as_fabric(source: Any) -> Fabric:
    """``source`` itself; a running fabric as it stands now; or what :func:`load` makes of a path."""
    if isinstance(source, Fabric):
        return source
    return source.snapshot() if hasattr(source, "snapshot") else load(source)


def result_of(fabric: Fabric) -> ReadResult:
    """The reader's result behind ``fabric``, for the modules of this package: nothing may change
    it."""
    return fabric._result
