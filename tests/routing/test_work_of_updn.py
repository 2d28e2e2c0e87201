"""How much updn looks at in a fat tree of which 15 % of the cables between switches are gone, in counts: each ranking makes its tables once, and each pair of a
switch and a LID is looked at once for a detour, or not at all where detours cannot win."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.jit.functions import Kernel
from softib.routing.engine import route
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up

RANKINGS = 3  # the roots found, the distance from the CAs, one leaf


def torn(radix: int):
    """The graph of a three-level fat tree without 15 % of its cables between switches."""
    f = generate("fat-tree", radix=radix, levels=3)
    on_switch = np.isin(f.port_node, np.flatnonzero(f.node_type == 2))
    lower = np.flatnonzero(on_switch & (f.port_peer >= 0) & (f.port_peer > np.arange(len(f.port_peer))))
    lower = lower[on_switch[f.port_peer[lower]]]
    gone = np.random.default_rng(1).choice(lower, int(0.15 * len(lower)), replace=False)
    f.port_peer[f.port_peer[gone]] = -1
    f.port_peer[gone] = -1
    return bring_up(f, "minhop").sm.graph


@pytest.mark.parametrize(("radix", "searches"), [(12, 1), (20, 0)])
def test_detours_are_searched_once_and_only_where_they_can_win(radix, searches, monkeypatch):
    graph, calls, pairs = torn(radix), Counter(), []
    call = Kernel.__call__

    def counted(kernel, *args):
        calls[kernel.python.__name__] += 1
        if kernel.python.__name__ == "fill_gaps":
            pairs.append(len(args[3].dest_lid) * len(args[5]))
        return call(kernel, *args)

    monkeypatch.setattr(Kernel, "__call__", counted)
    routing = route(graph, "updn")
    monkeypatch.undo()
    assert routing.engine == "updn" and verify(graph, routing.lft).ok
    assert len(pairs) == searches and sum(pairs) <= searches * graph.n_switches * len(graph.end_lid)
    assert calls["all_hops"] <= 1 + RANKINGS and calls["legal_hops"] <= RANKINGS
    assert calls["least_loaded"] <= RANKINGS - 1, "a ranking with too many gaps gets no tables"
    assert calls["count_paths"] <= 3 and calls["put_all"] == searches
