"""Merges findings of several checks about the same cables into one finding per fault; the merged findings become its
evidence. A cabling plan is authoritative: a finding from the learned pattern becomes evidence of the plan's finding
about the same cable. If the cable is as planned, the pattern's finding is only information.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from softib.diags.cables.counters import links_lost
from softib.diags.cabling_plan.plan_on_fabric import PlanComparison
from softib.diags.finding import MANY, Finding, Severity, few, with_also
from softib.plural import counted, plural

__all__ = ["one_each"]

CABLING = frozenset(
    {
        "swapped-cables",
        "crossed-rails",
        "misplaced-cable",
        "missing-cable",
        "missing-uplinks",
        "uneven-spines",
        "uneven-uplinks",
        "swapped-hosts",
        "rail-mismatch",
        "absent-switch",
        "absent-host",
        "missing-adapter",
        "same-tier-cable",
        "unlinked-hca-port",
        "exchanged-leaves",
        "exchanged-ports",
        "exchanged-switches",
        "extra-cable",
        "shifted-hosts",
        "self-loop-cable",
    }
)
"""Codes about the ports that cables connect."""
VAGUE = frozenset({"missing-uplinks", "uneven-spines", "unlinked-hca-port", "self-loop-cable"})
"""Codes that name ports at which a cable may have been. Such a finding becomes evidence of a plan's finding if the two
have one port in common.
"""
RATES = frozenset({"link-slow", "link-narrow", "link-slower-than-peers", "links-below-generation", "mixed-link-speeds"})
"""Codes about the rate of cables."""
OF_A_DEAD_SWITCH = frozenset({"missing-cable", "missing-uplinks", "unlinked-hca-port"})
"""Codes about missing cables, all of which a dead switch explains."""
OF_HOSTS = frozenset({"exchanged-leaves", "swapped-hosts"})
"""Codes about hosts in exchanged positions, which exchanged switches explain."""
ROUTES = "uneven-routes"
UNJUDGED = "unjudged-cables"
PAIR = 2
_WORD = re.compile(r"[^\s,;()]+")

Port = tuple[int, int]


def one_each(findings: list[Finding], plan: PlanComparison | None) -> list[Finding]:
    """Return the findings of the checks and of ``plan`` (if there is one). Each fault is reported once, the most severe
    first.
    """
    led = list(plan.findings) if plan is not None else []
    rest = findings
    if plan is not None:
        rest = _folded(led, [f for f in findings if f.code in CABLING], lambda f: f.code != "plan-wrong-speed")
        rest += _folded(led, [f for f in findings if f.code in RATES], lambda f: f.code == "plan-wrong-speed")
        rest = [_as_planned(f, plan.as_planned) for f in rest]
        kept = {id(f) for f in findings if f.code not in CABLING | RATES}
        rest = [f for f in findings if id(f) in kept] + rest
    routes = [f for f in rest if f.code == "ftree-unfit" or (f.code == ROUTES and f.severity == Severity.INFO)]
    rest = [f for f in rest if f not in routes]
    every = _of_dead_switches(rest + led)
    every = _of_self_loops(_of_exchanged_switches(_of_exchanged_leaves(_of_absent_leaves(every))))
    every += _consequences(every, routes)
    every = _without_judged(
        _of_two_owners(_of_missing_cables(every)), plan.as_planned if plan is not None else frozenset()
    )
    return sorted(_lost_links(every), key=lambda f: -int(f.severity))


def _ports(finding: Finding) -> set[Port]:
    return {(p.guid, p.portnum) for p in finding.where if p.portnum is not None}


def _nodes(finding: Finding) -> set[int]:
    return {p.guid for p in finding.where}


def _folded(led: list[Finding], findings: Iterable[Finding], leads: Any) -> list[Finding]:
    """Move findings into the evidence of the findings in ``led`` that cover them (``led`` is changed). Return the other
    findings.

    A finding is covered if the findings in ``led`` together name all of its ports, or one of them names two of its
    ports (both ends of a cable). For a :data:`VAGUE` code, one port is enough.
    """
    at: dict[Port, list[int]] = {}
    for i, f in enumerate(led):
        if leads(f):
            for port in _ports(f):
                at.setdefault(port, []).append(i)
    left = []
    for f in findings:
        ports = _ports(f)
        times: dict[int, int] = {}
        for port in ports:
            for i in at.get(port, ()):
                times[i] = times.get(i, 0) + 1
        best = min(times, key=lambda i: (-times[i], i), default=-1)
        if f.code == "unlinked-hca-port" and not ports:  # the finding names adapters, not ports: compare nodes
            best = next((i for i, x in enumerate(led) if leads(x) and _nodes(f) <= _nodes(x)), -1)
            times[best] = 2
        if best >= 0 and (times[best] >= 2 or f.code in VAGUE or ports <= at.keys()):
            led[best] = with_also(led[best], f)
        else:
            left.append(f)
    return left


def _of_dead_switches(findings: list[Finding]) -> list[Finding]:
    """Merge findings that follow from a switch without any link (its missing cables, its hosts' ports) into the finding
    about that switch. This is the plan's finding if all planned cables of the switch are missing, otherwise the finding
    that the switch is isolated.
    """
    dead: dict[int, int] = {}
    names: dict[str, int] = {}
    by_plan = {f.where[0].guid: i for i, f in enumerate(findings) if _whole_node_of_plan(f)}
    folded: set[int] = set()
    for i, f in enumerate(findings):
        for p in _lone_switches(f):
            lead = by_plan.get(p.guid, i)
            dead[p.guid] = names[str(p)] = lead
            if lead != i and len(f.where) == 1:
                findings[lead] = with_also(findings[lead], f)
                folded.add(i)
    followers: dict[int, list[Finding]] = {}
    for i, f in enumerate(findings):
        lead = _dead_switch_of(f, dead, names) if f.code in OF_A_DEAD_SWITCH else -1
        if lead >= 0:
            followers.setdefault(lead, []).append(f)
            folded.add(i)
    for lead, several in followers.items():
        findings[lead] = _with_followers(findings[lead], several)
    return [f for i, f in enumerate(findings) if i not in folded]


def _of_absent_leaves(findings: list[Finding]) -> list[Finding]:
    """Merge findings about adapters without a link into the finding about the first absent leaf, if the absent leaves
    have enough ports for these adapters. A neighbouring leaf shows how many hosts an absent leaf has
    (``hosts_beside``).
    """
    leaves = [i for i, f in enumerate(findings) if f.code == "absent-switch" and f.evidence.get("hosts_beside")]
    alone = [f for f in findings if f.code == "unlinked-hca-port" and not f.evidence.get("expected")]
    adapters = sum(len(f.where) for f in alone)
    if not alone or adapters > sum(findings[i].evidence["hosts_beside"] for i in leaves):
        return findings
    first, *others = (findings[i] for i in leaves)
    on = f"to it or {counted(len(others), 'other absent leaf')}" if others else "to it"
    lead = replace(
        first,
        where=tuple(dict.fromkeys(p for f in (first, *alone) for p in f.where)),
        message=f"{first.message}; {counted(adapters, 'adapter')} without any link may belong {on}",
    )
    for f in alone:
        lead = with_also(lead, f)
    return [lead if f is first else f for f in findings if not any(f is x for x in alone)]


def _of_exchanged_leaves(findings: list[Finding]) -> list[Finding]:
    """Merge findings about swapped host cables into the finding that the two leaves are exchanged."""
    leads = [(i, _ports(f)) for i, f in enumerate(findings) if f.code == "exchanged-leaves"]
    folded = set()
    for i, f in enumerate(findings):
        ends = _ports(f) if f.code == "swapped-cables" else set()
        lead = next((k for k, ports in leads if len(ends & ports) >= 2), -1)
        if lead >= 0:
            findings[lead] = with_also(findings[lead], f)
            folded.add(i)
    return [f for i, f in enumerate(findings) if i not in folded]


def _of_exchanged_switches(findings: list[Finding]) -> list[Finding]:
    """Merge findings about hosts of exchanged switches into the finding about the switches."""
    leads = [i for i, f in enumerate(findings) if f.code == "exchanged-switches"]
    at = {p.guid: i for i in leads for p in findings[i].where}
    folded = set()
    for i, f in enumerate(findings):
        lead = at.get(f.where[0].guid, -1) if f.code in OF_HOSTS and f.where else -1
        if lead >= 0 and _nodes(f) <= _nodes(findings[lead]):
            findings[lead] = with_also(findings[lead], f)
            folded.add(i)
    return [f for i, f in enumerate(findings) if i not in folded]


def _of_self_loops(findings: list[Finding]) -> list[Finding]:
    """Merge missing uplinks into the finding about a self-loop cable (both ends on one node) if this cable is plugged
    into the ports of these uplinks."""
    loops = {str(p): i for i, f in enumerate(findings) if f.code == "self-loop-cable" for p in f.where}
    folded = set()
    for i, f in enumerate(findings):
        lost = f.evidence["ports"] if f.code == "missing-uplinks" else []
        sides = [side for side in ("switch", "above") if lost and all(set(x[side]) & loops.keys() for x in lost)]
        leads = {loops[p] for x in lost for p in x[sides[0]] if p in loops} if sides else set()
        if len(leads) == 1:
            lead = leads.pop()
            at = dict.fromkeys(p for x in lost for p in x["above" if sides[0] == "switch" else "switch"])
            text = (
                f"; in its place the tree has {plural(len(lost), 'an uplink', 'uplinks')} at {few(at, MANY)}"
                if at
                else ""
            )
            findings[lead] = with_also(replace(findings[lead], message=findings[lead].message + text), f)
            folded.add(i)
    return [f for i, f in enumerate(findings) if i not in folded]


def _whole_node_of_plan(f: Finding) -> bool:
    return (
        f.code == "plan-missing-cable" and f.where[0].portnum is None and f.evidence["missing"] == f.evidence["planned"]
    )


def _lone_switches(f: Finding) -> list[Any]:
    """Return the locations of switches without any link."""
    if f.code != "isolated-part":
        return []
    parts = f.evidence.get("each", [{**f.evidence, "where": [str(p) for p in f.where]}])
    alone = {p["where"][0] for p in parts if p.get("switches") == 1 and p.get("cas") == 0}
    return [p for p in f.where if str(p) in alone]


def _dead_switch_of(f: Finding, dead: dict[int, int], names: dict[str, int]) -> int:
    """Return the index of the finding about the dead switch that explains ``f``; -1 if there is none."""
    nodes = _nodes(f)
    if f.where[0].guid in dead:  # a finding about the dead switch
        return dead[f.where[0].guid]
    if len(nodes) == 2 and (of := nodes & dead.keys()):
        return dead[of.pop()]
    return names.get(str(f.evidence.get("expected")), -1)


def _with_followers(lead: Finding, several: list[Finding]) -> Finding:
    cables = sum(f.evidence.get("missing", 1) for f in several if f.code != "unlinked-hca-port")
    hosts = sum(f.evidence.get("ports", 1) for f in several if f.code == "unlinked-hca-port")
    parts = [f"{counted(cables, 'cable')} to switches"] if cables else []
    parts += [f"{counted(hosts, 'host port')}"] if hosts else []
    where = tuple(dict.fromkeys(p for f in (lead, *several) for p in f.where))
    message = f"{lead.message}; the pattern has {' and '.join(parts)} there"
    lead = replace(lead, where=where, message=message)
    for f in several:
        lead = with_also(lead, f)
    return lead


def _as_planned(f: Finding, as_planned: frozenset[Port]) -> Finding:
    """Return ``f`` with the severity information if all of its cables are as planned."""
    ports = _ports(f)
    if f.code not in CABLING or not ports or not ports <= as_planned or f.severity == Severity.INFO:
        return f
    return replace(
        f,
        severity=Severity.INFO,
        message=f"{f.message}; the cabling is as planned",
        evidence={**f.evidence, "as_planned": True},
        advice="nothing if the plan is right; otherwise correct the plan",
    )


def _of_missing_cables(findings: list[Finding]) -> list[Finding]:
    """Merge the finding that one of several cables may be misplaced into the finding about the one missing cable, if
    the misplaced cable may belong there.
    """
    missing = [i for i, f in enumerate(findings) if f.code == "missing-cable" and len(_nodes(f)) == PAIR]
    folded = set()
    for i, f in enumerate(findings):
        cables = f.evidence.get("cables") if f.code == UNJUDGED and {"expected", "free"} & f.evidence.keys() else None
        if not isinstance(cables, list):
            continue
        leads = [k for k in missing if _nodes(findings[k]) <= _nodes(f)]
        if len(leads) == 1:
            first = findings[leads[0]]
            text = f"{first.message}; {few(cables)} may be that cable"
            where = tuple(dict.fromkeys((*first.where, *f.where)))
            findings[leads[0]] = with_also(replace(first, message=text, where=where), f)
            folded.add(i)
    return [f for i, f in enumerate(findings) if i not in folded]


def _without_judged(findings: list[Finding], as_planned: frozenset[Port]) -> list[Finding]:
    """Remove a finding that cables are not judged, if the plan or other findings judge all of these cables. If cables
    may also be missing (the finding names ``free`` ports), remove it only if the plan confirms cables of all its
    switches.
    """
    judged = as_planned.union(*(_ports(f) for f in findings if f.code in CABLING or f.code.startswith("plan-")))
    planned = {guid for guid, _ in as_planned}
    return [
        f
        for f in findings
        if f.code != UNJUDGED or not (_ports(f) <= judged or ("free" in f.evidence and _nodes(f) <= planned))
    ]


def _lost_links(findings: list[Finding]) -> list[Finding]:
    """Remove, from the finding about ports that lost a link, the ports that other findings about cables name."""
    named = set[Port]().union(*(_ports(f) for f in findings if f.code in CABLING or f.code.startswith("plan-")))
    out = []
    for f in findings:
        if f.code == "link-lost":
            counts = {p: f.evidence["link_downed"][str(p)] for p in f.where if (p.guid, p.portnum) not in named}
            out += [links_lost(counts)] if counts else []
        else:
            out.append(f)
    return out


def _of_two_owners(findings: list[Finding]) -> list[Finding]:
    """Merge unreachable pairs into the finding about a LID that several ports have, if this LID is the reason. Each
    subnet is treated separately, because LIDs of different subnets are unrelated.
    """
    owner = {
        f"{p.shown or p.node} (LID {lid})": i
        for i, f in enumerate(findings)
        if f.code == "duplicate-lid"
        for p in f.where
        for low, high in [f.evidence["lids"][str(p)]]
        for lid in range(low, high + 1)
    }
    folded = set()
    for i, lost in enumerate(findings):
        owners = [owner.get(end, -1) for end in lost.evidence["missed"]] if lost.code == "unreachable-pairs" else []
        if not owners or -1 in owners:
            continue
        pairs = (
            f"{lost.evidence['pairs']:,} of {counted(lost.evidence['of'], 'pair')} "
            f"{plural(lost.evidence['pairs'], 'does', 'do')} not arrive"
        )
        lead = findings[owners[0]]
        findings[owners[0]] = with_also(replace(lead, message=f"{lead.message}; {pairs}"), lost)
        folded.add(i)
    return [f for i, f in enumerate(findings) if i not in folded]


def _consequences(findings: list[Finding], routes: list[Finding]) -> list[Finding]:
    """Move findings about ``routes`` that follow from a cable fault into the evidence of that fault's finding (in
    place). Return the others.

    If cables are missing or wrong, softib's tables put more load on some links, and ftree may reject the tree. The
    cause is the fault at a switch that the finding about routes names, or the only fault."""
    faults = [
        i
        for i, f in enumerate(findings)
        if f.severity >= Severity.WARNING
        and (f.code in CABLING or f.code == "isolated-part" or f.code.startswith("plan-"))
    ]
    at = {p.guid: i for i in reversed(faults) for p in findings[i].where}
    named = {p.shown or p.node: i for i in reversed(faults) for p in findings[i].where}
    left: list[Finding] = []
    for f in routes:
        named_in_reason = set(_WORD.findall(f.evidence.get("reason", "")))
        i = next((at[p.guid] for p in f.where[:1] if p.guid in at), -1)
        i = next((at_name for name, at_name in named.items() if name in named_in_reason), i)
        if i < 0 and len(faults) == 1:
            i = faults[0]
        if i < 0:
            left.append(f)
        else:
            lead = findings[i]
            if f.code == "ftree-unfit":
                cost = f"stock ftree does not fit, which costs {f.evidence['cost_percent']:g} % of random pairs' rate"
                lead = replace(lead, message=f"{lead.message}; {cost}", advice=f"{lead.advice}; or {f.advice}")
            findings[i] = with_also(lead, f)
    return left
