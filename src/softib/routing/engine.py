"""The interface of routing engines, and the registry of engines. It contains softib's engines, with
OpenSM's names, and those of installed packages (entry points of the group ``softib.engines``).

The name of an entry point is the name of the engine. Its value is a function that takes a
:class:`~softib.routing.graph.SwitchGraph` and :class:`RouteOptions`, and returns a :class:`Routing`
or only its tables.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, SoftibError, UnknownName
from softib.extensions import Extension, blamed_on, extensions
from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted
from softib.routing.graph import SwitchGraph

if TYPE_CHECKING:
    from softib.routing.chains.chain_policy import ChainPolicy, PortGroup
    from softib.routing.proof.reach import ProvenTables

__all__ = [
    "DEFAULT_ENGINE",
    "ENGINES",
    "NEEDS",
    "WITHOUT_LANES",
    "RouteOptions",
    "Routing",
    "chain",
    "engine",
    "engines",
    "route",
]

GROUP = "softib.engines"

DEFAULT_ENGINE = "ftree,updn,dfsssp,lash"
"""The default engines of every verb and every manager. ftree routes trees. Other fabrics are routed
by updn, which cannot deadlock. On fabrics without top switches, an engine with virtual lanes is
used if its paths are much better (docs/decisions/0007)."""
WITHOUT_LANES = "ftree,updn"
"""The default for a site that uses SLs or adaptive routing for other purposes."""

USUAL_DATA_VLS = 8
BY_MINHOP = "; routed by minhop, as OpenSM does"
"""End of the note of an engine that could not route the graph."""


@dataclass(frozen=True)
class RouteOptions:
    """Options of OpenSM's engines, under OpenSM's names.

    * ``root_guids``: NodeGUIDs of the roots (updn, dnup, ftree), empty = the engine finds them.
    * ``root_groups``: port groups (names in ``groups``) whose switches are also roots.
    * ``cn_guids``, ``io_guids``: PortGUIDs of compute and I/O nodes (ftree), empty = all are compute nodes.
    * ``past_roots``: roots of the previous tables of this subnet. An engine that would not find
      them in an incomplete tree uses them as a hint (ftree).
    * ``proven``: the proof of the previous tables, so that only changes must be proved.
    * ``data_vls``: number of data VLs that every link has. It limits lash, dfsssp and nue (0:
      unknown, use :data:`USUAL_DATA_VLS`).
    * ``nue_max_num_vls``: number of VLs that nue uses (OpenSM's default 1; 0 = all of ``data_vls``).
    * ``torus_config``: text of a torus-2QoS.conf(5).
    * ``lfts``: text of a dump in dump_lfts format, for engine ``file`` (OpenSM's ``-U``).
    * ``chain``: the steps of the chain, for engine ``chain``.
    * ``seed``: seed of engines with random choices.
    """

    root_guids: tuple[int, ...] = ()
    root_groups: tuple[str, ...] = ()
    groups: tuple[PortGroup, ...] = ()
    cn_guids: tuple[int, ...] = ()
    io_guids: tuple[int, ...] = ()
    past_roots: tuple[int, ...] = ()
    proven: ProvenTables | None = field(default=None, compare=False)
    data_vls: int = 0
    nue_max_num_vls: int = 1
    torus_config: str = ""
    lfts: str = ""
    chain: ChainPolicy | None = None
    seed: int = 0


@dataclass
class Routing:
    """The result of an engine.

    ``lft`` uint8[n_switches, graph.lft_size], 255 = no route.

    ``path_sl`` is None if one VL is enough, so that partitions and QoS can choose SLs. Otherwise it
    is the SL of packets from any CA on a switch (row of the graph) to an end port (row of
    ``graph.end_*``), for all LIDs of that port: uint8[n_switches, ends], or uint8[1, ends] if the
    SL depends only on the destination. :meth:`sl` reads it.

    ``sl2vl`` is None if VL = SL mod data VLs on every port. Otherwise it is the VL of each SL (VL
    15 = discard, IBA 7.6.6) in one of three shapes: uint8[16] for all ports of all switches;
    uint8[n_switches, 16] for all ports of each switch; uint8[n_switches, ports + 1, ports + 1, 16]
    by input portnum, output portnum (0 = the switch's own port) and SL. ``end_sl2vl`` (uint8[16] or
    None) is the map of every CA and router port. ``vls`` is the number of data VLs that links
    between switches must operate for these tables to be free of credit loops.

    ``tree`` bool[links] is a spanning tree whose turns close no cycle with the paths on any VL
    (nue's escape paths).

    ``one_sl``: both directions of a path have the same SL, so an answer that uses the SL of its
    request makes no loop.

    ``notes`` are lines of text about the ranks and roots that the engine used, and about fallbacks.
    """

    engine: str
    lft: np.ndarray
    path_sl: np.ndarray | None = None
    sl2vl: np.ndarray | None = None
    ranks: np.ndarray | None = None
    roots: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)
    end_sl2vl: np.ndarray | None = None
    vls: int = 1
    tree: np.ndarray | None = None
    one_sl: bool = True

    def sl(self, switch: int, end: int) -> int:
        """Return the SL of paths from CAs on ``switch`` to the end port ``end`` (rows of the
        graph); 0 if :attr:`path_sl` is None."""
        if self.path_sl is None:
            return 0
        return int(self.path_sl[switch % len(self.path_sl), end])


Engine = Callable[[SwitchGraph, RouteOptions], Routing]

ENGINES: dict[str, str] = {
    "minhop": "softib.routing.engines.minhop:route",
    "updn": "softib.routing.engines.updn:route",
    "dnup": "softib.routing.engines.updn:route_dnup",
    "ftree": "softib.routing.engines.ftree:route",
    "sssp": "softib.routing.engines.sssp:route",
    "dfsssp": "softib.routing.engines.dfsssp:route",
    "lash": "softib.routing.engines.lash:route",
    "dor": "softib.routing.engines.dor:route",
    "nue": "softib.routing.engines.nue:route",
    "torus-2QoS": "softib.routing.engines.torus:route",
    "file": "softib.routing.engines.file:route",
    "chain": "softib.routing.chains.chains:route",
}
"""OpenSM's engine name → location of its function (loaded on demand)."""

NEEDS: dict[str, str] = {"torus-2QoS": "torus_config", "file": "lfts", "chain": "chain"}
"""The engines that need a file, and the field of :class:`RouteOptions` that holds the file's
content."""


@cache
def _of_packages() -> Mapping[str, Extension]:
    """Return the engines of installed packages by name. Warns about entry points that cannot be
    used."""
    return extensions(GROUP, ENGINES, _check)


def _check(name: str, value: Any) -> None:
    """Raise :class:`InputError` for an engine that cannot be called, or whose name cannot be part
    of a list."""
    if not callable(value):
        raise InputError("the engine is not a function of a graph and options")
    if not name or any(c in name for c in ", \t"):
        raise InputError("the engine's name has a comma or a space, which separate the names in a list")


def engines() -> tuple[str, ...]:
    """Return the names of all engines: softib's, then those of installed packages."""
    return (*ENGINES, *_of_packages())


def engine(name: str) -> Engine:
    """Return the engine named ``name``; raises :class:`UnknownName` with similar names.

    If a package's engine raises an exception, or returns tables that do not match the graph, minhop
    routes the graph; ``notes`` of the result report this.
    """
    if name in ENGINES:
        module, function = ENGINES[name].split(":")
        built_in: Engine = getattr(importlib.import_module(module), function)
        return built_in
    if name in _of_packages():
        return lambda graph, options: _run(_of_packages()[name], graph, options)
    raise UnknownName("routing engine", name, engines())


def _run(extension: Extension, graph: SwitchGraph, options: RouteOptions) -> Routing:
    name = extension.name
    try:
        with blamed_on(extension.package, f"routing engine {name}"):
            result = extension.value(graph, options)
            routing = result if isinstance(result, Routing) else Routing(name, np.asarray(result))
            _check_tables(graph, routing, options.data_vls or USUAL_DATA_VLS)
            return replace(routing, engine=name, lft=np.ascontiguousarray(routing.lft), notes=list(routing.notes))
    except SoftibError as error:
        from softib.routing.engines import minhop

        routing = minhop.route(graph, options)
        routing.notes.append(f"{error}{BY_MINHOP}")
        return routing


def _check_tables(graph: SwitchGraph, routing: Routing, data_vls: int) -> None:
    """Raise ValueError if a package's tables do not match the graph, or need more than ``data_vls``
    VLs."""
    n, ends, ports = graph.n_switches, len(graph.end_lid), int(graph.switch_nports.max(initial=0)) + 1
    shapes: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
        "lft": (np.uint8, [(n, graph.lft_size)]),
        "path_sl": (np.uint8, [(n, ends), (1, ends)]),
        "sl2vl": (np.uint8, [(16,), (n, 16), (n, ports, ports, 16)]),
        "end_sl2vl": (np.uint8, [(16,)]),
        "ranks": (np.int32, [(n,)]),
        "tree": (np.bool_, [(len(graph.peer),)]),
    }
    for name, (dtype, wanted) in shapes.items():
        column = getattr(routing, name)
        if column is None and name != "lft":
            continue
        column = np.asarray(column)
        if column.dtype != dtype or column.shape not in wanted:
            sizes = " or ".join(str(list(shape)) for shape in wanted)
            raise ValueError(f"{name} is {column.dtype}{list(column.shape)}, not {np.dtype(dtype)}{sizes}")
        if name.endswith(("sl", "vl")) and column.max(initial=0) > 15:
            raise ValueError(f"{name} has numbers above 15")
    beyond = (routing.lft != LFT_NO_ROUTE) & (routing.lft > graph.switch_nports[:, None])
    if beyond.any():
        switch, lid = np.argwhere(beyond)[0].tolist()
        raise ValueError(f"LID {lid} leaves switch {switch} by port {routing.lft[switch, lid]}, which it does not have")
    if not 1 <= routing.vls <= data_vls:
        raise ValueError(f"vls is {routing.vls}; every link has {counted(data_vls, 'data VL')}")


def chain(name: str) -> list[str]:
    """Return the engines of a list in the form ``ftree,updn`` (as in OpenSM's ``-R``); raises
    :class:`UnknownName`."""
    names = [n.strip() for n in name.split(",")]
    for n in names:
        if n not in ENGINES and n not in _of_packages():  # no engine is imported to check a name
            raise UnknownName("routing engine", n, engines())
    return names


def route(graph: SwitchGraph, name: str, options: RouteOptions | None = None) -> Routing:
    """Run engine ``name`` on ``graph``. If ``name`` is a list, use the first engine whose own
    tables reach every connected pair. A later ``dfsssp`` or ``lash`` in the list replaces ``updn``
    and ``dnup`` if its paths are much better (:mod:`softib.routing.engines.updn`).

    If no engine reaches every pair, use the one that leaves the fewest pairs without a route, or
    the first such engine. ``notes`` name the rejected engines and the reasons.
    """
    names = chain(name)
    options = options or RouteOptions()
    options = options if options.data_vls else replace(options, data_vls=USUAL_DATA_VLS)
    if not graph.n_switches:
        return Routing(names[0], np.zeros((0, graph.lft_size), np.uint8), notes=["no switches to route"])
    notes: list[str] = []
    if options.root_groups:
        from softib.routing.chains.chains import with_root_groups

        options = with_root_groups(graph, options, notes)
    partial: list[tuple[int, Routing]] = []
    for n in names:
        routing = engine(n)(graph, options)
        is_native = routing.engine == n
        if is_native or n == names[-1]:
            # A single engine, or the last one that remains, needs no comparison.
            lost = _lost(graph, routing, options.proven) if len(names) > 1 and (n != names[-1] or partial) else 0
            if not lost:
                if n in ("updn", "dnup") and is_native and n != names[-1]:
                    from softib.routing.engines.updn import with_lanes

                    routing = with_lanes(graph, routing, names[names.index(n) + 1 :], options)
                return _noted(routing, notes)
            partial.append((lost, routing))
            notes.append(f"{n} leaves {counted(lost, 'pair')} without a route; tried the next engine")
        else:
            notes += _rejected(n, routing)
    lost, routing = min(partial, key=lambda p: p[0])
    return _noted(routing, [*notes, f"no engine of the list reaches every pair; took {routing.engine}"])


def _lost(graph: SwitchGraph, routing: Routing, proven: ProvenTables | None) -> int:
    from softib.routing.proof.reach import lost_pairs

    return lost_pairs(graph, routing.lft) if proven is None else proven.lost_pairs(graph, routing.lft)


def _rejected(name: str, routing: Routing) -> list[str]:
    """Return the notes of an engine that was rejected: its reason, without notes on minhop's
    tables, which are not used."""
    reasons = [note.removesuffix(BY_MINHOP) for note in routing.notes if note.endswith(BY_MINHOP)]
    return [f"{why}; tried the next engine" for why in reasons or [f"{name} does not fit this fabric"]]


def _noted(routing: Routing, notes: list[str]) -> Routing:
    routing.notes[:0] = notes
    return routing
