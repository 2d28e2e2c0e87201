"""Constants of NCCL's tuning model, by release, from src/graph/tuning.cc of NCCL 2.8.4 and
2.30.7."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

__all__ = [
    "ALGORITHMS",
    "PROTOCOLS",
    "RELEASES",
    "TREE_CORRECTION",
    "Algorithm",
    "Collective",
    "Protocol",
    "Release",
    "busbw_factor",
    "release_of",
]


class Collective(StrEnum):
    """The collectives of nccl-tests."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all-to-all"
    SEND_RECV = "send-recv"


class Algorithm(StrEnum):
    """The values of NCCL_ALGO, and ``p2p`` for grouped sends and receives."""

    TREE, RING, COLLNET, NVLS, NVLS_TREE, PAT, P2P = "tree", "ring", "collnet", "nvls", "nvls-tree", "pat", "p2p"


class Protocol(StrEnum):
    """The values of NCCL_PROTO. LL has a flag for each 4 bytes of data, LL128 one flag in each 128 bytes, Simple one
    flag for each slice."""

    LL, LL128, SIMPLE = "ll", "ll128", "simple"


ALGORITHMS = {
    Collective.ALL_REDUCE: (Algorithm.TREE, Algorithm.RING, Algorithm.COLLNET, Algorithm.NVLS, Algorithm.NVLS_TREE),
    Collective.ALL_GATHER: (Algorithm.RING, Algorithm.NVLS, Algorithm.PAT),
    Collective.REDUCE_SCATTER: (Algorithm.RING, Algorithm.NVLS, Algorithm.PAT),
    Collective.BROADCAST: (Algorithm.RING,),
    Collective.ALL_TO_ALL: (Algorithm.P2P,),
    Collective.SEND_RECV: (Algorithm.P2P,),
}
"""The algorithms of each collective."""
PROTOCOLS = {
    Algorithm.TREE: tuple(Protocol),
    Algorithm.RING: tuple(Protocol),
    Algorithm.COLLNET: (Protocol.SIMPLE,),
    Algorithm.NVLS: (Protocol.SIMPLE,),
    Algorithm.NVLS_TREE: (Protocol.SIMPLE,),
    Algorithm.PAT: (Protocol.SIMPLE,),
    Algorithm.P2P: (Protocol.SIMPLE,),
}
"""Protocols of each algorithm."""

Three = tuple[float, float, float]


@dataclass(frozen=True)
class Release:
    """Constants of one release of NCCL.

    * ``base``: by algorithm, basic latency in µs with LL, LL128 and Simple.
    * ``nvlink`` and ``net``: latency in µs of a hop over NVLink, and over the network.
    * ``ll_nvlink``: factor on an LL hop inside a node if there are several nodes.
    * ``ll_share``: share of a ring's bandwidth that LL gets.
    * ``ll_share_inside``: this share for all-gather, reduce-scatter and broadcast inside a node.
    * ``tree_bw``: GB/s of a tree's channel, by GPU and by number of nodes (1, 2, more).
    * ``ll128_bw``: GB/s of a channel with LL128, by GPU; ``ll128_of``: this rate by collective, in releases that
      distinguish collectives.
    * ``ll_max``: GB/s of all channels with LL; on 1 node by GPU, on 2 or more by processor.
    * ``plateau``: factor on the latency of a large ring.
    * ``overhead``: whether a ring's hop takes at least the time to post a network operation.
    * ``old``: whether the release is like 2.8.4. Such a release counts channels before they are doubled, allows at most
      235 GB/s on an A100, and uses NVLink's faster speed for trees on two nodes. It runs a tree with LL and Simple up,
      then down; later releases do both at once.
    """

    name: str
    base: dict[Algorithm, Three]
    nvlink: dict[Algorithm, Three]
    net: dict[Algorithm, Three]
    ll_nvlink: float
    ll_share: float
    ll_share_inside: float
    tree_bw: tuple[Three, ...]
    ll128_bw: tuple[float, ...]
    ll_max: tuple[Three, ...]
    plateau: float
    overhead: bool
    old: bool
    ll128_of: Mapping[Collective, float]


_LL_MAX: tuple[Three, ...] = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
_NONE: Three = (0.0, 0.0, 0.0)
_LL128_OF = MappingProxyType(
    {
        Collective.BROADCAST: 18.8,
        Collective.ALL_GATHER: 18.3,
        Collective.REDUCE_SCATTER: 15.2,
        Collective.ALL_REDUCE: 16.9,
    }
)
A = Algorithm
RELEASES = {
    r.name: r
    for r in (
        Release(
            name="2.8",
            base={A.TREE: (4.4, 4.4, 0.0), A.RING: (3.6, 10.0, 8.4)},
            nvlink={A.TREE: (0.52, 1.25, 28.0), A.RING: (0.47, 1.9, 3.4)},
            net={A.TREE: (5.0, 8.5, 28.0), A.RING: (2.7, 4.0, 9.6)},
            ll_nvlink=1.8,
            ll_share=0.25,
            ll_share_inside=1 / 3,
            tree_bw=((26.5, 18.5, 10.0), (24.0, 22.5, 16.0)),
            ll128_bw=(16.9, 16.9),
            ll_max=_LL_MAX,
            plateau=1.9,
            overhead=False,
            old=True,
            ll128_of=_LL128_OF,
        ),
        Release(
            name="2.30",
            base={
                A.TREE: (6.8, 14.0, 8.4),
                A.RING: (6.6, 14.0, 8.4),
                A.COLLNET: _NONE,
                A.NVLS: _NONE,
                A.NVLS_TREE: _NONE,
                A.PAT: (8.0, 8.0, 8.0),
            },
            nvlink={
                A.TREE: (0.6, 1.25, 4.0),
                A.RING: (0.6, 1.9, 3.4),
                A.COLLNET: (0.0, 0.0, 3.7),
                A.NVLS: (0.0, 0.0, 25.0),
                A.NVLS_TREE: (0.0, 0.0, 25.0),
                A.PAT: (0.0, 0.0, 4.0),
            },
            net={
                A.TREE: (5.0, 8.5, 14.0),
                A.RING: (2.7, 4.0, 14.0),
                A.COLLNET: (0.0, 0.0, 31.0),
                A.NVLS: (0.0, 0.0, 18.0),
                A.NVLS_TREE: (0.0, 0.0, 20.9),
                A.PAT: (0.0, 0.0, 14.0),
            },
            ll_nvlink=1.0,
            ll_share=0.5,
            ll_share_inside=0.5,
            tree_bw=((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0)),
            ll128_bw=(20.0, 20.0, 36.7, 40.0),
            ll_max=_LL_MAX,
            plateau=1.4,
            overhead=True,
            old=False,
            ll128_of=MappingProxyType({}),
        ),
    )
}
"""Releases by name."""
_LL_CORRECTION = (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1)
_SIMPLE_CORRECTION = (*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9)
TREE_CORRECTION = {
    "2.8": (
        _LL_CORRECTION,
        (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 0.92, 0.92),
        _SIMPLE_CORRECTION,
    ),
    "2.30": (
        _LL_CORRECTION,
        (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
        _SIMPLE_CORRECTION,
    ),
}
"""Share of its bandwidth that a tree reaches at 64, 128, … bytes, with LL, LL128 and Simple."""


def release_of(version: str, gpu: int) -> Release:
    """Return the release whose constants are used for NCCL ``version`` (for example 2.19.3) on
    a GPU of row ``gpu`` of its tables: the nearest release that supports the GPU."""
    minor = int(version.split(".")[1])
    old, new = RELEASES["2.8"], RELEASES["2.30"]
    return old if gpu < len(old.tree_bw) and 2 * minor <= 8 + 30 else new


def busbw_factor(collective: Collective, ranks: int) -> float:
    """Return bus bandwidth divided by algorithm bandwidth: the bytes on the busiest link, divided by the bytes of the
    collective (nccl-tests, PERFORMANCE.md)."""
    if collective == Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return 1.0 if collective in (Collective.BROADCAST, Collective.SEND_RECV) else (ranks - 1) / ranks
