"""What bring-up costs, in counts that follow from the fabric: MADs of each kind, orderings, tables computed, batches. Times are measured by bench/bringup.py."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_BLOCK, SmpAttr
from softib.iba.smp import ATTR_AT, METHOD_AT, MODIFIER_AT
from softib.jit.functions import Kernel
from softib.jit.interpreted import python_of
from softib.routing.engines import ftree
from softib.routing.lft_kernels import least_loaded
from softib.scenario import bring_up as scenario
from softib.sm.tables import lft_plan
from softib.sm.tables.lft_order import LftUpdate

GET, SET = 1, 2


@pytest.fixture
def counts(monkeypatch):
    """How often each kernel was called from Python, and what the manager sent, by (method, attribute)."""
    calls, sent = Counter(), Counter()
    call, exchange = Kernel.__call__, AgentPlane.exchange

    def counted(kernel, *args):
        calls[kernel.python.__name__] += 1
        return call(kernel, *args)

    def carried(plane, batch, port, now_ps=0):
        attr = (batch.mad[:, ATTR_AT].astype(int) << 8) | batch.mad[:, ATTR_AT + 1]
        sent.update(zip(batch.mad[:, METHOD_AT].tolist(), attr.tolist(), strict=True))
        calls["batches"] += 1
        return exchange(plane, batch, port, now_ps)

    monkeypatch.setattr(Kernel, "__call__", counted)
    monkeypatch.setattr(AgentPlane, "exchange", carried)
    return calls, sent


@pytest.mark.parametrize("engine", ["minhop", "ftree"])
def test_a_bring_up_asks_and_writes_each_thing_once(engine, counts, monkeypatch):
    """IBA 14.4: each switch port with a link is probed, each node is asked once what it is; a table that no switch holds needs no order."""
    calls, sent = counts
    updates = []
    begin = LftUpdate.__init__
    monkeypatch.setattr(LftUpdate, "__init__", lambda self, *a: (updates.append(self), begin(self, *a))[1])
    stages = []
    monkeypatch.setattr(lft_plan, "transition_stages", lambda *a: stages.append(a))
    fabric = generate("fat-tree", radix=8, levels=3)
    subnet = scenario.bring_up(fabric, engine)
    switches, hosts = fabric.sizes.switches, fabric.sizes.nodes - fabric.sizes.switches
    ports_of_switches = int(fabric.node_nports[fabric.node_type == 2].sum())
    linked = int((fabric.linked & np.isin(fabric.port_node, np.flatnonzero(fabric.node_type == 2))).sum())
    blocks = -(-(switches + hosts + 1) // LFT_BLOCK)
    expected = {
        (GET, SmpAttr.NODE_INFO): 2 + linked,  # the manager's own port, what is behind it, and behind each switch port
        (GET, SmpAttr.NODE_DESC): switches + hosts,
        (GET, SmpAttr.SWITCH_INFO): switches,
        (GET, SmpAttr.PORT_INFO): hosts + switches + ports_of_switches,
        (SET, SmpAttr.LFT): switches * blocks,
    }
    assert {kind: sent[kind] for kind in expected} == expected
    assert len(updates) == 1 and not stages and calls["rounds"] == 0
    assert calls["least_loaded"] == 1
    # a window holds all that a phase of this fabric sends, and discovery goes on as answers arrive: two batches a hop, one a phase
    assert calls["batches"] <= 40, calls["batches"]
    assert not subnet.report.problems


def test_a_second_sweep_writes_nothing_and_orders_nothing(counts):
    calls, sent = counts
    subnet = scenario.bring_up(generate("fat-tree", radix=8, levels=2), "minhop")
    sent.clear()
    calls.clear()
    subnet.sweep()
    assert not {kind: n for kind, n in sent.items() if kind[0] == SET}
    assert calls["rounds"] == 0


def test_first_tables_go_out_of_the_memory_that_they_were_computed_in(monkeypatch):
    """A table of 11,664 hosts is 21 MB: the rounds name its blocks, and no copy of it is made."""
    updates = []
    begin = LftUpdate.__init__
    monkeypatch.setattr(LftUpdate, "__init__", lambda self, *a: (updates.append(self), begin(self, *a))[1])
    subnet = scenario.bring_up(generate("fat-tree", radix=4, levels=2), "minhop")
    (update,) = updates
    assert np.shares_memory(update.images, subnet.sm.routing.lft) and np.shares_memory(update.images, update.held)


def test_each_block_is_written_once(monkeypatch):
    """Sets of forwarding tables at bring-up, by device and block: the bytes of the routing, none twice."""
    seen = Counter()
    exchange = AgentPlane.exchange

    def carried(plane, batch, port, now_ps=0):
        lft = (
            (batch.mad[:, METHOD_AT] == SET) & (batch.mad[:, ATTR_AT + 1] == SmpAttr.LFT) & (batch.mad[:, ATTR_AT] == 0)
        )
        for mad in batch.mad[lft]:
            seen[bytes(mad[128:192]), int.from_bytes(mad[MODIFIER_AT : MODIFIER_AT + 4].tobytes(), "big")] += 1
        return exchange(plane, batch, port, now_ps)

    monkeypatch.setattr(AgentPlane, "exchange", carried)
    subnet = scenario.bring_up(generate("fat-tree", radix=8, levels=3), "minhop")
    blocks = subnet.routing.lft.shape[1] // LFT_BLOCK
    assert set(seen.values()) == {1} and {block for _, block in seen} == set(range(blocks))
    assert len(seen) == len(subnet.routing.lft) * blocks
    assert (subnet.routing.lft == subnet.fabric.lft[:, : subnet.routing.lft.shape[1]]).all()


@pytest.mark.parametrize("engine", ["minhop", "ftree"])
def test_tables_of_a_tree_list_candidates_a_few_times_a_switch(engine, monkeypatch):
    """In a tree a switch has two sets of several candidates, all links up and all down, and single links; one link down leads to a leaf, one
    link up to a top switch. Lists are made for the sets, not for each of the n² pairs of switches."""
    lists, run = Counter(), Kernel.__call__

    def counting(name, function):
        return lambda *args: (lists.update([name]), function(*args))[1]

    fills = [python_of(k) for k in (least_loaded, ftree.fill_down, ftree.fill_up)]
    for fill, names in zip(fills, (["_fill_counted", "_fill_uncounted"], [""], [""]), strict=True):
        name = "candidate_list" if names[0] else "_links_nearer"
        for inner in names:
            scope = (fill.__globals__[inner] if inner else fill).__globals__
            monkeypatch.setitem(scope, name, counting(name, scope[name]))
    scope = fills[0].__globals__
    monkeypatch.setitem(scope, "_fill_counted", counting("rows", scope["_fill_counted"]))

    def interpreted(kernel, *args):
        name = kernel.python.__name__
        known = {"least_loaded": fills[0], "fill_down": fills[1], "fill_up": fills[2]}
        return known[name](*args) if name in known else run(kernel, *args)

    fabric = generate("fat-tree", radix=6, levels=3)
    expected = scenario.bring_up(fabric.copy(), engine).routing.lft
    monkeypatch.setattr(Kernel, "__call__", interpreted)
    with np.errstate(over="ignore"):  # as in machine code
        assert np.array_equal(scenario.bring_up(fabric, engine).routing.lft, expected)
    assert 0 < lists["candidate_list"] <= 4 * fabric.sizes.switches and not lists["_links_nearer"], lists
    inner = 18  # of 45 switches: the middle level; ftree fills all entries of leaves and top switches
    assert lists["rows"] == (inner if engine == "ftree" else fabric.sizes.switches)
