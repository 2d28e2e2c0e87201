"""The default engine under a manager: what a fault does to a tree that was whole."""

from __future__ import annotations

import numpy as np

from softib.fabric.topologies.registry import generate
from softib.routing.engine import DEFAULT_ENGINE
from softib.routing.verify import verify
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig


def test_one_default_for_a_manager_and_a_report():
    assert SmConfig().engine == DEFAULT_ENGINE == "ftree,updn"
    assert bring_up(generate("fat-tree", radix=8, levels=3)).routing.engine == "ftree"
    assert bring_up(generate("ring", switches=5)).routing.engine == "updn"


def test_a_cable_less_makes_no_other_engine_of_a_running_tree():
    """A fresh manager routes the broken tree by updn; one that has seen it whole keeps its top switches, reaches everything,
    and writes a fraction of the tables anew."""
    f = generate("fat-tree", radix=12, levels=3)
    b = bring_up(f)
    assert b.routing.engine == "ftree"
    all_sets = b.report.sets
    leaf = f.find_node("leaf-3")
    up = next(p for p in f.ports_of(leaf) if f.linked[p] and f.is_switch[f.port_node[f.port_peer[p]]])
    b.plane.set_link(up, False)
    b.sweep()
    assert b.routing.engine == "ftree" and any("the whole tree had" in n for n in b.routing.notes)
    proof = verify(b.graph, b.routing.lft)
    assert proof.ok and b.report.sets < all_sets / 10
    used = np.unique(f.lft[f.switch_of_node[leaf]])
    assert int(f.port_num[up]) not in used.tolist()
    b.plane.set_link(up, True)
    b.sweep()
    assert b.routing.engine == "ftree" and verify(b.graph, b.routing.lft).ok
