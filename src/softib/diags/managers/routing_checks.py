"""Findings about forwarding tables, from the proof that they deliver packets (``routing.verify.Proof``) and the balance
of their load (``routing.quality.Balance``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from softib.components import components
from softib.diags.context import Context
from softib.diags.finding import Finding, Location, Severity, code, finding
from softib.plural import counted, plural
from softib.routing.proof.reach import cas_of

UNREACHABLE_PAIRS = code(
    "unreachable-pairs",
    Severity.ERROR,
    "packets of some pairs of ports do not arrive",
    "route again; if the fabric has several parts, link them first",
)
CUT_OFF_SWITCHES = code(
    "unreachable-from-switches",
    Severity.ERROR,
    "packets sent by a switch do not arrive: hosts do not receive its counters and traps",
    "route again; the default engines, and OpenSM's minhop, give every switch a path to every connected host",
)
CREDIT_LOOP = code(
    "credit-loop",
    Severity.ERROR,
    "links wait for each other's buffers in a cycle: the fabric can deadlock",
    "use an engine that avoids cycles (updn, ftree, or one with virtual lanes)",
)
ANSWER_LOOP = code(
    "credit-loop-answers",
    Severity.WARNING,
    "links wait for each other in a cycle if answers use the SL of the request, as in RDMA_CM connections",
    "use lash or torus-2QoS, which put both directions of a path on one virtual lane; or let programs query the SL "
    "of each direction",
)
SWITCH_LOOP = code(
    "credit-loop-switches",
    Severity.INFO,
    "links wait for each other in a cycle only because of packets to and from switches",
    "nothing for jobs: traffic between adapters cannot deadlock; use separate SLs and VLs for polls of switch counters",
)
UNEVEN_ROUTES = code(
    "uneven-routes",
    Severity.WARNING,
    "a link carries far more paths than the others of its tier",
    "look for missing links in the tier; compare the engines in the report",
)
FTREE_UNFIT = code(
    "ftree-unfit",
    Severity.WARNING,
    "the fabric is a tree with a flaw that stock ftree rejects, and the engine used instead has less bandwidth",
    "fix the flaw, or specify the roots: softib route SOURCE --guid-files DIR writes the files for --root_guid_file "
    "and --io_guid_file",
)

MIN_PATHS = 16
"""Minimum number of paths on the most loaded link of an uneven tier. With fewer paths, a tier is too small to judge."""
IMBALANCE = 2.0
"""Minimum ratio of the largest to the mean number of paths on a link of an uneven tier."""
MANY = 5


def _switch_node(c: Context, row: int) -> int:
    rows = c.graph.switch_node if c.graph is not None else c.view.fabric.switch_node
    return int(rows[row])


def _out(c: Context, row: int, portnum: int) -> Location:
    return c.view.location_on(_switch_node(c, row), int(portnum))


def unreachable_ends(c: Context) -> Iterator[Finding]:
    """Report pairs of a CA and another CA or a switch whose packets do not arrive, with a few examples."""
    if c.proof is None or not c.proof.unreachable:
        return
    examples: list[str] = []
    where: list[Location] = []
    for failure in c.proof.failures:
        if failure.kind.startswith("CA") and len(examples) < MANY:
            node = _switch_node(c, failure.switch)
            where.append(c.view.node_location(node))
            examples.append(f"{_sender(c, failure)} to {_end_name(c, failure)}: {failure.what}")
    first = f"; from {examples[0]}" if examples else ""
    total = c.proof.ca_ca.total + c.proof.ca_switch.total
    yield finding(
        UNREACHABLE_PAIRS,
        dict.fromkeys(where),
        f"{c.proof.unreachable} of {counted(total, 'pair')} {plural(total, 'does', 'do')} not arrive{first}",
        {
            "pairs": int(c.proof.unreachable),
            "of": int(total),
            "examples": examples,
            "missed": sorted({_end_name(c, x) for x in c.proof.failures if x.kind.startswith("CA")}),
        },
    )


def unreachable_from_switches(c: Context) -> Iterator[Finding]:
    """Report pairs of a switch and a CA that are connected by cables, but not by the forwarding tables. If pairs of CAs
    are also unreachable, only :func:`unreachable_ends` reports. If only pairs of switches are unreachable, the finding
    is information.
    """
    if c.proof is None or c.graph is None:
        return
    graph = c.graph
    part = components(graph.n_switches, graph.link_switch, graph.peer)
    lids = 1 << graph.end_lmc.astype(np.int64)
    apart = part[:, None] != part[graph.end_switch]
    cas_apart = (apart & ~graph.end_is_switch) @ lids
    if c.proof.ca_ca.lost > int(cas_of(graph) @ cas_apart):
        return
    to_cas = np.maximum(c.proof.cut_off - cas_apart, 0)
    between = c.proof.switch_switch.lost - int(((apart & graph.end_is_switch) @ lids).sum())
    rows = np.flatnonzero(to_cas)
    if not len(rows) and between <= 0:
        return
    names = {c.view.display_names[_switch_node(c, int(row))]: int(to_cas[row]) for row in rows}
    evidence = {"pairs": int(to_cas.sum()), "switch_pairs": max(between, 0), "addresses_missed": names}
    if len(rows):
        worst = rows[np.argsort(-to_cas[rows], kind="stable")]
        where = [c.view.node_location(_switch_node(c, int(row))) for row in worst]
        yield finding(
            CUT_OFF_SWITCHES,
            where[:MANY],
            f"{len(rows)} {'switch has' if len(rows) == 1 else 'switches have'} no path to some hosts; {where[0]} "
            f"misses {int(to_cas[worst[0]])} addresses",
            evidence,
        )
    else:
        yield finding(
            CUT_OFF_SWITCHES,
            [],
            f"{counted(between, 'pair')} of switches have no path to each other; every switch reaches every host",
            evidence,
            severity=Severity.INFO,
            advice="nothing if the subnet manager runs on a host",
        )


def _sender(c: Context, failure: Any) -> str:
    """Return the first adapter on the switch of ``failure`` other than its destination, with the switch."""
    name = c.view.display_names[_switch_node(c, failure.switch)]
    if c.graph is None:
        return name
    on_switch = (c.graph.end_switch == failure.switch) & ~c.graph.end_is_switch
    on_switch[failure.end] = False
    ends = np.flatnonzero(on_switch)
    return f"{c.view.display_names[int(c.graph.end_node[ends[0]])]} (at {name})" if len(ends) else name


def _end_name(c: Context, failure: Any) -> str:
    if c.graph is None:
        return f"LID {failure.lid}"
    return f"{c.view.display_names[int(c.graph.end_node[failure.end])]} (LID {failure.lid})"


def credit_loops(c: Context) -> Iterator[Finding]:
    """Report a cycle of channels that wait for each other, if there is one. The finding is a warning if the SLs of the
    paths, which may prevent the cycle, are unknown.
    """
    if c.proof is None:
        return
    if c.proof.credit_loop is not None:
        where, shown, evidence = _cycle(c, c.proof.credit_loop)
        message = f"credit loop of {counted(len(where), 'channel')}: {shown}"
        if c.proof.assumed:
            yield finding(
                CREDIT_LOOP,
                where,
                f"{message}, if all paths use one SL",
                {**evidence, "sls": c.proof.assumed},
                severity=Severity.WARNING,
                advice=(
                    f"the paths' SLs are not known here ({c.proof.assumed}): if an engine with virtual lanes made "
                    f"these tables, check the running fabric; otherwise use updn or ftree"
                ),
            )
        else:
            yield finding(CREDIT_LOOP, where, message, evidence)
    elif c.proof.answer_loop is not None:
        where, shown, evidence = _cycle(c, c.proof.answer_loop)
        yield finding(
            ANSWER_LOOP,
            where,
            f"credit loop of {len(where)} channels with answers on the SL of the request: {shown}",
            evidence,
        )
    elif c.proof.switch_loop is not None and not c.proof.among_switches:
        where, shown, evidence = _cycle(c, c.proof.switch_loop)
        yield finding(
            SWITCH_LOOP,
            where,
            f"credit loop of {counted(len(where), 'channel')} with packets to and from switches: {shown}",
            evidence,
        )


class _Cycle(NamedTuple):
    """A cycle of channels, for a finding."""

    where: list[Location]
    shown: str
    evidence: dict[str, Any]


def _cycle(c: Context, channels: Any) -> _Cycle:
    """Return the cycle of ``channels``, which are (switch row, egress port, VL)."""
    cycle = [(_out(c, s, p), int(vl)) for s, p, vl in channels]
    shown = " → ".join(str(location) for location, _ in cycle[:8]) + (" → …" if len(cycle) > 8 else "")
    channels = [[location.node, location.portnum, vl] for location, vl in cycle]
    return _Cycle([p for p, _ in cycle], shown, {"cycle": channels})


def uneven_load(c: Context) -> Iterator[Finding]:
    """Report tiers of a tree whose most loaded link carries at least :data:`IMBALANCE` times the mean.

    Only trees are checked, because in grids and dragonflies shortest paths load the links unevenly in any case. The
    finding is a warning for recorded tables, and information for tables that softib computed, which are not a fault of
    the fabric.
    """
    if c.quality is None or c.structure.kind not in ("fat-tree", "rail-optimized"):
        return
    for tier in c.quality.tiers:
        if tier.imbalance < IMBALANCE or tier.links < 2 or tier.low == tier.high or tier.worst[0][2] < MIN_PATHS:
            continue
        where = [_out(c, s, p) for s, p, _ in tier.worst[:MANY]]
        yield finding(
            UNEVEN_ROUTES,
            where,
            f"{where[0]} carries {counted(tier.worst[0][2], 'path')}, {tier.imbalance:.1f} times the mean of its "
            f"{counted(tier.links, 'link')}",
            {
                "paths": int(tier.worst[0][2]),
                "mean": round(float(tier.mean), 1),
                "links": int(tier.links),
                "unused_or_least": int(tier.least),
            },
            severity=Severity.WARNING if "lfts" in c.view.records else Severity.INFO,
        )


def unfit_for_ftree(c: Context) -> Iterator[Finding]:
    """Report a flaw of a tree that makes the engine ftree reject it, and the bandwidth that ftree provides with GUID
    files.
    """
    if c.remedy is None:
        return
    r, named = c.remedy, "root_guid_file" + (" and io_guid_file" if c.remedy.options.io_guids else "")
    io_ports = np.isin(c.view.fabric.port_guid, np.array(r.options.io_guids, np.uint64)) & (c.view.fabric.port_guid > 0)
    nodes = np.unique(c.view.fabric.port_node[np.flatnonzero(io_ports)])
    yield finding(
        FTREE_UNFIT,
        [c.view.node_location(int(n)) for n in nodes],
        f"stock ftree does not fit ({r.reason}): random pairs get {r.bisection:.1%} of their links' rate, with "
        f"{named} for ftree "
        f"{r.with_files:.1%}; the flaw costs {r.cost:.0%}",
        {
            "reason": r.reason,
            "bisection": round(r.bisection, 4),
            "with_files": round(r.with_files, 4),
            "cost_percent": round(100 * r.cost, 1),
            "root_guids": [f"{g:#018x}" for g in r.options.root_guids],
            "io_guids": [f"{g:#018x}" for g in r.options.io_guids],
        },
    )


OF_TABLES = (unreachable_ends, unreachable_from_switches, credit_loops, uneven_load)
"""Checks of forwarding tables, which run once per subnet in a fabric with several subnets."""
