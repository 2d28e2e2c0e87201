"""The unicast cache: the entries of absent hosts stay in the forwarding tables, as with OpenSM's
``use_ucast_cache``. So a host that leaves or restarts changes no other routes.

Engines assign LIDs to ports round robin, so the loss of one LID would move thousands of others. As
long as no other device is connected to the host's switch port, and no other port has its LIDs, the
host is routed as if it were present. Packets to it are dropped at that port, which is down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softib.routing.graph import SwitchGraph

__all__ = ["EndLocations", "with_absent"]

_COLUMNS = {
    "guid": np.uint64,
    "switch_guid": np.uint64,
    "port": np.uint8,
    "portnum": np.uint8,
    "lid": np.uint16,
    "lmc": np.uint8,
    "compute": np.bool_,
}


@dataclass(frozen=True)
class EndLocations:
    """Locations of CA ports, one row each: PortGUID, NodeGUID and port of the switch, portnum, LID
    and LMC of the port itself, and whether it is a compute node
    (:attr:`SwitchGraph.end_is_compute`)."""

    guid: np.ndarray
    switch_guid: np.ndarray
    port: np.ndarray
    portnum: np.ndarray
    lid: np.ndarray
    lmc: np.ndarray
    compute: np.ndarray

    @classmethod
    def none(cls) -> EndLocations:
        """Return locations without rows."""
        return cls(**{name: np.zeros(0, dtype) for name, dtype in _COLUMNS.items()})

    @classmethod
    def of(cls, graph: SwitchGraph) -> EndLocations:
        """Return the CA ports of ``graph``."""
        ends = np.flatnonzero(~graph.end_is_switch)
        return cls(
            graph.end_guid[ends],
            graph.switch_guid[graph.end_switch[ends]],
            graph.end_port[ends],
            graph.end_portnum[ends],
            graph.end_lid[ends],
            graph.end_lmc[ends],
            graph.end_is_compute[ends],
        )

    def take(self, rows: np.ndarray) -> EndLocations:
        """Return these rows."""
        return EndLocations(**{name: getattr(self, name)[rows] for name in _COLUMNS})

    def __add__(self, other: EndLocations) -> EndLocations:
        return EndLocations(**{name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _COLUMNS})


def with_absent(graph: SwitchGraph, before: EndLocations) -> tuple[SwitchGraph, EndLocations]:
    """Return ``graph`` with the absent ends of ``before`` whose location is empty (``end_node``
    -1); and the locations to store: all ends of that graph, and those that are absent together with
    their switch."""
    present = EndLocations.of(graph)
    away = before.take(~np.isin(before.guid, present.guid) & ~_taken(graph, before))
    if not len(away.guid) or not graph.n_switches:
        return graph, present + away
    by_guid = np.argsort(graph.switch_guid, kind="stable")
    at = np.minimum(np.searchsorted(graph.switch_guid[by_guid], away.switch_guid), graph.n_switches - 1)
    switch = by_guid[at]
    there = graph.switch_guid[switch] == away.switch_guid
    full = np.concatenate([_key(graph.end_switch, graph.end_port), _key(graph.link_switch, graph.out_port)])
    occupied = there & np.isin(_key(switch, away.port), full)
    rows = np.flatnonzero(there & ~occupied)
    _, first = np.unique(
        _key(switch, away.port)[rows], return_index=True
    )  # if two hosts used the location alternately, the earlier row is kept
    rows = rows[np.sort(first)]
    remembered = present + away.take(rows) + away.take(~there)
    return _inserted(graph, away.take(rows), switch[rows]), remembered


def _key(switch: np.ndarray, port: np.ndarray) -> np.ndarray:
    return switch.astype(np.int64) << 8 | port


def _taken(graph: SwitchGraph, locations: EndLocations) -> np.ndarray:
    """Return bool[n]: whether a LID of the location belongs to a present port."""
    used = np.zeros((1 << 16) + 1, np.int64)
    np.add.at(used, graph.end_lid.astype(np.int64), 1)
    np.add.at(used, np.minimum(graph.end_lid.astype(np.int64) + (1 << graph.end_lmc.astype(np.int64)), 1 << 16), -1)
    count = np.concatenate([[0], np.cumsum(np.cumsum(used) > 0)])
    first = locations.lid.astype(np.int64)
    return count[np.minimum(first + (1 << locations.lmc.astype(np.int64)), 1 << 16)] > count[first]


def _inserted(graph: SwitchGraph, away: EndLocations, switch: np.ndarray) -> SwitchGraph:
    lid = np.concatenate([graph.end_lid, away.lid])
    order = np.argsort(lid, kind="stable")
    n = len(away.guid)
    joined = lambda held, theirs: np.concatenate([held, np.asarray(theirs, held.dtype)])[order]
    top = int((away.lid.astype(np.int64) + (1 << away.lmc.astype(np.int64)) - 1).max(initial=0))
    return replace(
        graph,
        end_lid=lid[order],
        end_lmc=joined(graph.end_lmc, away.lmc),
        end_switch=joined(graph.end_switch, switch),
        end_port=joined(graph.end_port, away.port),
        end_is_switch=joined(graph.end_is_switch, np.zeros(n, bool)),
        end_guid=joined(graph.end_guid, away.guid),
        end_node=joined(graph.end_node, np.full(n, -1)),
        end_portnum=joined(graph.end_portnum, away.portnum),
        end_is_compute=joined(graph.end_is_compute, away.compute),
        max_lid=max(graph.max_lid, top),
    )
