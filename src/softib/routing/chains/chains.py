"""``chain``: parts of a fabric routed by engines of their own, one after the other
(:mod:`softib.routing.chains.chain_policy`).

The first step routes the whole fabric, each later one its topology; where both have an entry the
later one counts. A step's tables never lead out of its topology, and lead to the destination from
every switch there that has an entry. So along a path the step that an entry comes from never goes
back, and paths of a chain have no loop where those of its steps have none.

Two engines that are each free of credit loops may close one together. A step whose tables would do
so, or would lose a pair, is left out, and ``notes`` say so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted
from softib.routing.chains.chain_groups import Members, members_of, part_of
from softib.routing.chains.chain_policy import ChainPolicy, Step
from softib.routing.engine import RouteOptions, Routing, engine
from softib.routing.engines.fallback import by_minhop
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import has_credit_loop
from softib.routing.proof.reach import lost_pairs

__all__ = ["route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """The tables of all steps of ``options.chain``; minhop's where there is none."""
    policy = options.chain
    if policy is None:
        return by_minhop(graph, options, "chain", "no rch_policy_file is given")
    groups, notes = members_of(graph, policy.groups), _empty_groups(graph, policy)
    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    loops, lost = False, 0
    for nth, step in enumerate(s for s in policy.steps if not s.fallback_to):
        made = _made(graph, options, policy, groups, step, notes, is_first=nth == 0)
        if made is None:
            continue
        taken, rows, table = made
        new = lft.copy()
        new[rows] = np.where(table != LFT_NO_ROUTE, table, lft[rows])
        new_loops, new_lost = has_credit_loop(graph, new), lost_pairs(graph, new)
        if nth and (new_loops > loops or new_lost > lost):
            why = (
                f"would lose {new_lost - lost:,} pairs"
                if new_lost > lost
                else "would close a credit loop with the steps before"
            )
            notes.append(f"{_called(taken)} {why}; left out")
            continue
        lft, loops, lost = new, new_loops, new_lost
        notes.append(
            f"{_called(taken)}: {counted(len(rows), 'switch')}, "
            f"{counted(int((table != LFT_NO_ROUTE).any(axis=0).sum()), 'LID')}"
        )
    return Routing("chain", lft, notes=notes)


def _made(
    graph: SwitchGraph,
    options: RouteOptions,
    policy: ChainPolicy,
    groups: dict[str, Members],
    step: Step,
    notes: list[str],
    is_first: bool,
) -> tuple[Step, np.ndarray, np.ndarray] | None:
    """The step that succeeds, of ``step`` and its fallbacks; its switches (rows), and their tables."""
    topologies = {t.id: t for t in policy.topologies}
    last: tuple[Step, np.ndarray, np.ndarray] | None = None
    for tried in (step, *(s for s in policy.steps if s.fallback_to == step.id)):
        whole = not tried.topology
        rows, part = (
            (np.arange(graph.n_switches), graph) if whole else part_of(graph, topologies[tried.topology], groups)
        )
        if not part.n_switches:
            notes.append(f"{_called(tried)}: no switch of its topology is there")
            continue
        step_options = replace(
            tried.options or options, data_vls=options.data_vls, past_roots=(), proven=None, chain=None
        )
        routing = engine(tried.engine)(part, step_options)
        last = tried, rows, routing.lft
        why = "; ".join(routing.notes) if routing.engine != tried.engine else ""
        if not why and (lost := lost_pairs(part, routing.lft)):
            why = f"leaves {counted(lost, 'pair')} without a route"
        if not why:
            return last
        notes.append(f"{_called(tried)} failed: {why}")
    return last if is_first else None


def _called(step: Step) -> str:
    return f"step {step.id} ({step.engine}, topology {step.topology})"


def _empty_groups(graph: SwitchGraph, policy: ChainPolicy) -> list[str]:
    named = any(group.hosts or group.patterns for group in policy.groups)
    return (
        ["port-name and port-regexp match nothing: names of nodes are not known here"]
        if named and graph.node_desc is None
        else []
    )
