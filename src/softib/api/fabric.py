"""The public fabric object. It is read from a source or generated, and no function changes it."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
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
    """An InfiniBand fabric: its devices, cables, and recorded data. Created by :func:`load`,
    :func:`generate` and :func:`running`. All functions (``check``, ``route``, ``report``) work on a
    copy: a fabric never changes.

    >>> import softib
    >>> tree = softib.generate("fat-tree", radix=4, levels=2)
    >>> tree
    <Fabric 'fat-tree': 6 switches, 8 hosts, 16 cables>
    >>> tree.switches, tree.hosts, tree.cables
    (6, 8, 16)
    """

    def __init__(
        self, result: ReadResult | Callable[[], ReadResult], source: str, chosen: dict[str, Any] | None = None
    ):
        self._given, self.source, self._chosen = result, source, chosen
        self._seconds: dict[str, float] = {}
        self._tables: dict[str, Table] = {}

    def __getitem__(self, name: str) -> Node | dict[str, Any]:
        """Return the :class:`Node` with this name or GUID (``fabric["leaf-1"]``), or the row of this port
        (``fabric["leaf-1[3]"]``).

        Raises :class:`UnknownName` with similar names, :class:`InputError` for an ambiguous name.
        """
        from softib.api.node import item_of

        return item_of(self, name)

    def __contains__(self, name: object) -> bool:
        """Return whether a node or port has this name."""
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
    def _result(self) -> ReadResult:
        """The result of the reader, which is called at first use."""
        if callable(self._given):
            self._given = self._given()
        return self._given

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle. The source is read first, because a reader cannot be pickled."""
        return {**self.__dict__, "_given": self._result}

    @cached_property
    def _finder(self) -> NodeFinder:
        from softib.fabric.node_finder import NodeFinder

        return NodeFinder(self._result.fabric)

    @property
    def name(self) -> str:
        """The fabric's name, or its source if it has no name."""
        return self._result.fabric.name or self.source

    @property
    def format(self) -> str:
        """Format of the source (``ibnetdiscover``, ``topo``, ``running`` …)."""
        return self._result.format

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Records of the source that could not be read: file, line, reason."""
        return tuple(self._result.problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """Valid data in the source that softib does not use."""
        return tuple(self._result.notes)

    @property
    def seconds(self) -> dict[str, float]:
        """Wall time of each step of reading the source, in seconds."""
        return dict(self._seconds)

    @property
    def arrays(self) -> model.Fabric:
        """A copy of its columns, which may be modified (:mod:`softib.fabric.columns`)."""
        return self._result.fabric.copy()

    @property
    def switches(self) -> int:
        """Number of switches."""
        return self._result.fabric.sizes.switches

    @property
    def hosts(self) -> int:
        """Number of host adapters: channel adapters without SHARP aggregation nodes."""
        return int(self._result.fabric.is_host.sum())

    @property
    def adapters(self) -> int:
        """Number of channel adapters, including SHARP aggregation nodes."""
        return len(self._result.fabric.cas)

    @property
    def cables(self) -> int:
        """Number of cables."""
        return self._result.fabric.sizes.cables

    def table(self, kind: str = "nodes") -> Table:
        """Return ``nodes``, ``ports`` or ``links`` as a table. Raises :class:`UnknownName` for
        another kind.
        """
        from softib.analysis import columns

        if kind not in KINDS:
            raise UnknownName("table of a fabric", kind, KINDS)
        if kind not in self._tables:
            self._tables[kind] = Table(getattr(columns, kind)(self._result.fabric))
        return self._tables[kind]

    @property
    def nodes(self) -> Table:
        """One row per device: name, type, GUIDs, ports, device and vendor, firmware and temperature
        if recorded."""
        return self.table("nodes")

    @property
    def ports(self) -> Table:
        """One row per port: node, number, label, GUID, LID, state, speed, width, Gb/s, and the peer
        of its cable."""
        return self.table("ports")

    @property
    def links(self) -> Table:
        """One row per cable between two ports: both ends, speed, lanes, Gb/s, length, medium, bit
        error rate."""
        return self.table("links")

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> tuple[str, ...]:
        """Write it to ``path``. The format follows from the suffix, unless it is given
        (``ibnetdiscover``, ``ibsim``, ``topo`` …).

        Returns notes on changes that were necessary for readers of the format, one line each. Raises
        :class:`UnknownFormat`, :class:`UnknownName`, :class:`UnreadableFile` if the file cannot be written.
        """
        from softib.fabric.formats import registry

        registry.writer_of(Path(path), format)
        return tuple(registry.write(self._result.fabric, os.fspath(path), format))

    def to_yaml(self) -> str:
        """Return the fabric.yaml of a generated fabric. Raises :class:`InputError` for a fabric
        read from a file."""
        from softib.fabric.topologies.registry import spec_text

        return spec_text(self._result.fabric, self._chosen)

    def to_networkx(self) -> networkx.MultiGraph:
        """Return a multigraph: nodes by name with ``type`` and ``guid``, one edge per cable with
        ``ports``, ``gbps``, ``length_m``.

        Two devices of the same name are distinguished by their GUID.
        """
        from softib.api.graph import multigraph

        return multigraph(self._result.fabric, library("networkx", "notebook"))

    def plot(self) -> Drawing:
        """Draw its switches and cables as SVG, with faults marked; a notebook shows the drawing,
        and ``.save(path)`` writes it."""
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
    later: bool = False,
) -> Fabric:
    """Read ``source``: a file of any known format (detected from the content), a fabric.yaml, the
    name of a running fabric, or ``umad:DEVICE`` for the subnet of that port (``umad:mlx5_0``;
    ``umad:`` is the first active port), which is read only with Gets. ``ibnl`` are directories of
    IBNL system descriptions for a ``.topo`` file; ``node_name_map`` is OpenSM's file of names.
    ``notice`` is called with information for the user (default: a :class:`SoftibWarning`).
    ``progress`` is called with a line (nodes and MADs) repeatedly while a subnet is read.
    ``later``: the source is read at the first use of the fabric, so that ``check``, ``simulate`` and other functions
    can first reject wrong arguments. Raises :class:`InputError` or a related error in one line: what is wrong, where,
    and what to do.
    """
    from softib.source import load as read

    name = _path_of(source)
    names = None if node_name_map is None else os.fspath(node_name_map)
    timed = Timed(steps)

    def reading() -> ReadResult:
        with timed("reading"):
            return read(name, [os.fspath(d) for d in ibnl], names, notice=notice, progress=progress)

    fabric = Fabric(reading if later else reading(), name)
    fabric._seconds = timed.seconds
    return fabric


def _path_of(source: Any) -> str:
    """Return ``source`` as text. Raises :class:`InputError` if it is not a path; the error names
    the function to use."""
    if isinstance(source, str | os.PathLike):
        return os.fsdecode(source)
    kind = type(source).__name__
    if isinstance(source, Fabric):
        raise InputError(
            f"load takes a path, but {source!r} is already a fabric; pass it directly to check, route, report …"
        )
    if isinstance(source, dict):
        raise InputError(
            "load takes a path, not a dict; use softib.generate(KIND, …) to build a fabric from parameters"
        )
    if isinstance(source, bytes):
        raise InputError("load takes a path as text, not bytes; if these are the contents, write them to a file")
    if hasattr(source, "read"):
        raise InputError("load takes a path, not an open file; use the file's name, or '-' for standard input")
    raise InputError(f"load takes the path of a file or the name of a running fabric, not {kind}")


def generate(kind: str, **parameters: Any) -> Fabric:
    """Generate a fabric of topology ``kind`` (``fat-tree``, ``torus``, ``dragonfly+`` …), powered
    on; :func:`topologies` lists them.

    Raises :class:`UnknownName` for an unknown kind or parameter (with similar names),
    :class:`TopologyError` for impossible values.
    """
    from softib.fabric.formats.base import ReadResult
    from softib.fabric.topologies.registry import generate as build

    fabric = build(kind, **parameters)
    fabric.name = fabric.name or kind
    return Fabric(ReadResult(fabric, [], "generated"), f"generate {kind}", parameters)


def topologies() -> dict[str, Kind]:
    """Return the kinds of topology for :func:`generate` by name. A kind has ``doc``, ``source`` and ``all_parameters``;
    each parameter has ``name``, ``form``, ``doc``, ``default`` and ``required``."""
    from softib.fabric.topologies.registry import kinds

    return dict(kinds())


def running(name: str | None = None) -> Fabric:
    """Return a copy of the running fabric ``name`` (default: the only one) in its current state,
    including tables and counters. Raises :class:`UnknownName` if no fabric with that name is
    running.
    """
    from softib.live.instances import find
    from softib.live.snapshot import read

    instance = find(name)
    return Fabric(read(instance), instance.name)


def as_fabric(source: Any) -> Fabric:
    """Return ``source`` itself, a copy of a running fabric, or the result of :func:`load` for a
    path."""
    if isinstance(source, Fabric):
        return source
    return source.snapshot() if hasattr(source, "snapshot") else load(source)


def result_of(fabric: Fabric) -> ReadResult:
    """Return the reader's result for ``fabric``, for modules of this package; they must not change it."""
    return fabric._result
