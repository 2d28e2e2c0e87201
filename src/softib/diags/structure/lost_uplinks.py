"""Finds switches of a tree that have lost all uplinks: they have no row in the table of links
(:mod:`softib.diags.structure.uniform`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.rules import mode
from softib.diags.structure.uniform import MAX_ODD, MIN_KIND
from softib.diags.view import FabricView

__all__ = ["CutOff", "cut_off"]

MOST_OF_TIER = 0.75
"""Minimum share of a tier's switches that must use a port number for uplinks, for a switch without uplinks to lack one
at this number.
"""


@dataclass(frozen=True)
class CutOff:
    """A ``switch`` of ``tier`` without uplinks. Of the ``of`` switches of this tier, ``having`` have ``usual`` uplinks,
    at port numbers that are free on this switch (``ports``, rows).
    """

    switch: int
    tier: int
    ports: tuple[int, ...]
    usual: int
    having: int
    of: int


def cut_off(view: FabricView, rank: np.ndarray) -> Iterator[CutOff]:
    """Yield the switches between the leaves and the top that have lost all uplinks. Most switches of their tier have
    uplinks at port numbers that are free on these switches. Switches without uplinks have no row in the table of
    links.
    """
    f, links = view.fabric, view.between_switches
    low, high = (
        np.concatenate(x) for x in ((view.port_a[links], view.port_b[links]), (view.port_b[links], view.port_a[links]))
    )
    tier = rank.astype(np.int64)
    up = low[tier[f.port_node[high]] > tier[f.port_node[low]]]
    count = np.bincount(f.port_node[up], minlength=len(view.names))
    for r in range(2, int(rank.max(initial=0))):
        members = np.flatnonzero(view.is_switch & (rank == r))
        having = members[count[members] > 0]
        lacking = len(members) - len(having)
        if len(having) < MIN_KIND or not 0 < lacking <= max(1, MAX_ODD * len(members)):
            continue
        usual = mode(count[having])[0]
        number, times = np.unique(f.port_num[up[np.isin(f.port_node[up], having)]], return_counts=True)
        numbers = number[times >= MOST_OF_TIER * len(having)].astype(np.int64)
        for switch in np.setdiff1d(members, having).tolist():
            ports = f.node_base[switch] + numbers[numbers <= f.node_nports[switch]]
            if len(ports) >= usual and (f.port_cable[ports] < 0).all():
                yield CutOff(switch, r, tuple(ports.tolist()), int(usual), len(having), len(members))
