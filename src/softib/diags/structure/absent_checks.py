"""Reports switches, hosts and adapters that seem to be missing in the source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import Each, Finding, Severity, code, each_or_one, few, finding
from softib.diags.hosts.host_units import vacancies
from softib.diags.rules import mode
from softib.diags.structure.absent import missing_names
from softib.diags.structure.absent_ports import Absent
from softib.diags.structure.director_slots import with_slots
from softib.diags.structure.free_rows import between_only_two, free_rows, named_by_peers, other_side
from softib.diags.structure.rails import system_of
from softib.diags.view import MIN_HOSTS, SAME, adapter_of
from softib.plural import counted, plural

ABSENT_SWITCH = code(
    "absent-switch",
    Severity.WARNING,
    "a switch is absent: its neighbours in name or cabling exist, its ports on their peers are free",
    "check whether it has power, and whether the scan reached it",
)
ABSENT_HOST = code(
    "absent-host",
    Severity.WARNING,
    "a host is absent: the hosts before and after it by name exist, its port between theirs is free",
    "check whether it is powered off, and whether its cable is plugged in",
)
MISSING_ADAPTER = code(
    "missing-adapter",
    Severity.WARNING,
    "a host has fewer adapters than nearly all hosts of its kind",
    "check the host (lspci, ibstat); a dead adapter or an unplugged cable is not in the scan",
)


_NUMBER = re.compile(r"\d+")
IN_SEQUENCE = 5
"""Maximum difference between the numbers of consecutive names in a row of names."""
_LETTER = re.compile(r"[A-Za-z0-9]")


def absent_nodes(c: Context) -> Iterator[Finding]:
    """Report switches and hosts that are not in the source, although names, port patterns or numbers of adapters
    indicate that they exist.
    """
    view = c.view
    if view.fabric.source.format == "topo":  # the file describes a planned fabric, it is not a scan
        return
    absent = missing_names(view, c.pattern.labels, c.structure.rank)
    explained = {p for pair in c.suspects.missing for p in pair}
    displaced = {n for x in c.suspects.exchanged for n in x.switches}
    switches, slots = with_slots(view, [a for a in absent if view.is_switch[a.before]], displaced)
    explained.update(p for a in slots.ports for p in a)
    explained.update(p for a in switches for p in a.ports)
    known = np.flatnonzero(
        (c.pattern.expected >= 0) & (view.fabric.port_cable < 0)
    )  # these ports belong to a node that is in the source
    apart, nameless = _free_ports_of_lone_switches(c), list[list[int]]()
    rows = free_rows(view, c.structure.rank, explained.union(known.tolist()))
    for row in rows:
        if switch := other_side(view, c.structure.rank, row, rows, switches):
            switch.ports += row
            switch.port_count += len(row)
        elif len(row) > apart:
            nameless.append(row)
    named = [a for row in nameless if (a := named_by_peers(view, row))]
    nameless = [row for row in nameless if not any(row is a.ports for a in named)]
    kept, empty = with_slots(view, named, displaced)
    switches += kept
    slots.empty += empty.empty
    explained.update(p for a in (*(a.ports for a in kept), *empty.ports) for p in a)
    for names, ports, system in slots.empty:
        yield finding(
            ABSENT_SWITCH,
            map(view.location, ports),
            f"{system}: {len(names)} slots between others are empty, or their boards without power: {few(names)}",
            {"names": names, "slots": len(names)},
            severity=Severity.INFO,
        )
    c.seen["of absent switches"] = explained.union(*nameless) if nameless else explained
    yield from (_switch(c, a) for a in switches)
    for row in nameless:
        yield _nameless(c, row)
    yield from _adapters(c, [a for a in absent if not view.is_switch[a.before]])


def _nameless(c: Context, row: list[int]) -> Finding:
    """Return the finding about an absent switch for which the free ports of ``row`` are the only evidence."""
    view, f = c.view, c.view.fabric
    parts = []
    for tier in np.unique(c.structure.rank[f.port_node[row]]).tolist():
        at = [p for p in row if c.structure.rank[f.port_node[p]] == tier]
        numbers = sorted({int(n) for n in f.port_num[at]})
        ports = f"port {numbers[0]} is" if len(numbers) == 1 else f"ports {', '.join(map(str, numbers))} are"
        parts.append(
            f"{ports} free on all {counted(len(set(f.port_node[at].tolist())), 'switch')} that reach the same ones as "
            f"{view.display_names[int(f.port_node[at[0]])]}"
        )
    return finding(
        ABSENT_SWITCH,
        map(view.location, row),
        f"{' and '.join(parts)}, though similar ports are in use, as if a switch were not there",
        {"ports": sorted({int(n) for n in f.port_num[row]}), "switches": len(set(f.port_node[row].tolist()))},
        severity=Severity.INFO if between_only_two(view, c.structure.rank, row) else None,
    )


def _free_ports_of_lone_switches(c: Context) -> int:
    """Return the largest number of free ports of a switch without a cable to another switch. Such a switch has a
    separate finding, and ports that are free on other switches may be its places.
    """
    f, is_switch = c.view.fabric, c.view.is_switch
    cabled = f.port_cable >= 0
    peer = np.maximum(f.port_peer, 0)
    to_switch = cabled & (f.port_peer >= 0) & is_switch[f.port_node[peer]] & (f.port_node[peer] != f.port_node)
    nodes = len(c.view.names)
    lone = is_switch & (np.bincount(f.port_node[to_switch], minlength=nodes) == 0)
    if is_switch.sum() < 2 or not lone.any():
        return 0
    free = f.node_nports - np.bincount(f.port_node[cabled], minlength=nodes)
    return int(free[lone].max())


def _between(c: Context, a: Absent) -> str:
    return f"{c.view.display_names[a.before]} and {c.view.display_names[a.after]} exist"


def _switch(c: Context, a: Absent) -> Finding:
    with_hosts = c.view.fabric.port_node[c.view.to_hosts[2]]
    free = f"{len(a.ports)} of {counted(a.port_count, 'port')} between theirs have no link"
    if not a.sure:
        free = (
            f"the {counted(len(a.ports), 'port')} beside theirs are the only free ones of leaves, which have as "
            "many hosts as uplinks with them"
        )
    return finding(
        ABSENT_SWITCH,
        map(c.view.location, a.ports),
        f"{a.name or 'a switch'} is absent: {_between(c, a)}, {free}",
        {
            "name": a.name or None,
            "before": c.view.display_names[a.before],
            "after": c.view.display_names[a.after],
            "free": len(a.ports),
            "places": a.port_count,
            "hosts_beside": max(int(np.count_nonzero(with_hosts == n)) for n in (a.before, a.after)),
        },
        severity=None if a.sure else Severity.INFO,
    )


def _adapters(c: Context, absent: list[Absent]) -> Iterator[Finding]:
    """Yield the findings about hosts that are entirely absent, then those about hosts of which only some adapters are
    missing.
    """
    view = c.view
    hosts: dict[str, list[Absent]] = {}
    for a in absent:
        hosts.setdefault(a.host, []).append(a)
    known = {host for host, _ in view.adapters.values()} if hosts else set()
    lost_hosts = {host: parts for host, parts in hosts.items() if host not in known}
    lacking = {host: parts for host, parts in hosts.items() if host in known}
    several = [_host(c, host, parts) for host, parts in lost_hosts.items()]
    yield from each_or_one(
        ABSENT_HOST,
        several,
        f"{counted(len(several), 'host')} {plural(len(several), 'is', 'are')} absent between others of their name, "
        f"and their leaf ports are free",
        {"hosts": list(lost_hosts), "ports": sum(len(where) for where, _, _ in several)},
        count="absent",
    )
    yield from _by_place(c, {p for a in absent for p in a.ports})
    yield from _fewer(c, lacking)


def _by_place(c: Context, explained: set[int]) -> Iterator[Finding]:
    """Yield the findings about absent hosts for which a free port is the only evidence."""
    view = c.view
    for sure, severity in ((True, Severity.WARNING), (False, Severity.INFO)):
        several: list[Each] = []
        for place in vacancies(view, c.structure.rank):
            if place.sure is not sure or explained & set(place.ports) or (not sure and _in_a_row(c, place.neighbours)):
                continue
            between = "between " if len(place.neighbours) > 1 else "in front of "
            between += " and ".join(view.display_names[n] for n in place.neighbours)
            ports = few(str(view.location(p)) for p in place.ports)
            subject = f"{len(place.ports)} leaf ports are" if len(place.ports) > 1 else "a leaf port is"
            several.append(
                (
                    [view.location(p) for p in place.ports],
                    f"{subject} free where a host belongs {between}: {ports}",
                    {"neighbours": [view.display_names[n] for n in place.neighbours]},
                )
            )
        yield from each_or_one(
            ABSENT_HOST,
            several,
            f"{counted(len(several), 'place')} of hosts are free between others",
            count="places",
            severity=severity,
        )


def _in_a_row(c: Context, neighbours: tuple[int, ...]) -> bool:
    """Return whether the hosts on both sides of the free port are in a row of names, so that a missing host leaves a
    gap in their numbers. If the free port is before the first host of a row, the first two hosts are compared.
    """
    if len(neighbours) == 1:
        f = c.view.fabric
        leaf_ports = [int(p) for p in f.port_peer[list(f.ports_of(neighbours[0]))] if p >= 0]
        following = [int(f.port_peer[p + 1]) for p in leaf_ports if p + 1 in f.ports_of(int(f.port_node[p]))]
        neighbours += tuple(int(f.port_node[p]) for p in following[:1] if p >= 0)
    numbers = [[int(x) for x in _NUMBER.findall(c.view.names[n])] for n in neighbours]
    if len(numbers) != 2 or len(numbers[0]) != len(numbers[1]):
        return False
    return 0 < max((abs(a - b) for a, b in zip(*numbers, strict=True)), default=0) <= IN_SEQUENCE


def _host(c: Context, host: str, parts: list[Absent]) -> Each:
    view = c.view
    ports = [p for a in parts for p in a.ports]
    subject = "the leaf port between theirs is" if len(ports) == 1 else f"{len(ports)} leaf ports between theirs are"
    if parts[0].across:
        subject = f"and hosts are numbered across the leaves: its port {few(str(view.location(p)) for p in ports)} is"
    return (
        [view.location(p) for p in ports],
        f"{host} is absent: {_between(c, parts[0])}, {subject} free",
        {
            "name": host,
            "before": view.display_names[parts[0].before],
            "after": view.display_names[parts[0].after],
            "adapters": [a.name for a in parts],
        },
    )


def _fewer(c: Context, lacking: dict[str, list[Absent]]) -> Iterator[Finding]:
    """Report hosts with fewer adapters than others of their kind; the free leaf port is included if
    names or the other adapters determine it."""
    view = c.view
    system = system_of(view)
    nodes = np.flatnonzero(system >= 0)
    count = np.bincount(system[nodes])
    leader = np.full(len(count), -1, np.int64)
    leader[system[nodes][::-1]] = nodes[::-1]
    kind, twins = _kinds(c, leader), _twins(c, nodes)
    for k in np.unique(kind[kind >= 0]).tolist():
        hosts = np.flatnonzero((kind == k) & (leader >= 0))
        usual, agree = mode(count[hosts])
        if len(hosts) < MIN_HOSTS or usual < 2 or agree < SAME * len(hosts):
            continue
        fewer = hosts[count[hosts] < usual]
        if len(fewer) <= twins:
            continue  # another finding reports that an adapter has the name of another host's adapter
        several = []
        for h in fewer.tolist():
            adapters = nodes[system[nodes] == h]
            name = _host_name(view.names[int(adapters[0])])
            parts = lacking.pop(name, [])
            ports = [p for a in parts for p in a.ports] or _port_of_the_others(c, adapters)
            several.append(_lacks(c, name, adapters, parts, ports, int(usual), int(agree)))
        yield from each_or_one(
            MISSING_ADAPTER,
            several,
            f"{counted(len(fewer), 'host')} {plural(len(fewer), 'has', 'have')} fewer adapters than {agree} of "
            f"their kind, which have {usual}",
            {"usual": int(usual)},
            count="hosts",
        )
    members: dict[str, list[int]] = {}
    for n in nodes.tolist() if lacking else ():
        if (name := _host_name(view.names[n])) in lacking:
            members.setdefault(name, []).append(n)
    several = []
    for name, adapter_nodes in members.items():
        parts = lacking[name]
        several.append(_lacks(c, name, np.array(adapter_nodes), parts, [p for a in parts for p in a.ports], 0, 0))
    yield from each_or_one(
        MISSING_ADAPTER,
        several,
        f"{counted(len(several), 'host')} {plural(len(several), 'lacks', 'lack')} adapters that hosts beside them have",
        count="hosts",
    )


def _kinds(c: Context, leader: np.ndarray) -> np.ndarray:
    """Return the kind of each host (int64[hosts]): hosts with similar names are one kind; -1 if the name gives no kind.
    ``leader``: one adapter of each host.
    """
    labels, described = c.pattern.labels, c.view.host_descriptions
    kind = labels.class_of[leader].astype(np.int64)
    forms: dict[str, int] = {}
    hosts = np.bincount(kind[(leader >= 0) & (kind >= 0)], minlength=len(labels.classes) + 1)
    kind[(kind >= 0) & (hosts[kind] < MIN_HOSTS)] = -1  # a class of few hosts may be the adapters of one host
    for h in np.flatnonzero(leader >= 0).tolist():
        name = c.view.names[int(leader[h])]
        shared = described.get(name)
        if shared and shared.is_one_host:
            kind[h] = len(labels.classes) + forms.setdefault(shared.form, len(forms))
        elif kind[h] < 0:
            kind[h] = len(labels.classes) + forms.setdefault(_shape(c, int(leader[h])), len(forms))
    return kind


def _shape(c: Context, node: int) -> str:
    """Return the property that hosts of one kind share if their names contain no numbers: the form of the host's name
    (``XXXXXXX`` for ``J3K0TX2 mlx5_0``), otherwise the description.
    """
    both = c.view.adapters.get(node)
    return _LETTER.sub("X", both[0]) if both else c.view.names[node]


def _twins(c: Context, nodes: np.ndarray) -> int:
    """Return the number of adapters with the same description as an adapter of another host. Descriptions that occur
    more often are default names of vendors and do not count.
    """
    described = c.view.host_descriptions
    carriers = Counter(name for n in nodes.tolist() if (name := c.view.names[n]) not in described)
    crowded = sum(max(0, d.carriers - d.usual) for d in described.values())
    return crowded + 2 * sum(times == 2 for times in carriers.values())


def _host_name(name: str) -> str:
    both = adapter_of(name)
    return both[0] if both else name


def _lacks(
    c: Context, host: str, adapters: np.ndarray, parts: list[Absent], ports: list[int], usual: int, agree: int
) -> Each:
    view = c.view
    where = [view.location(p) for p in ports] + [view.node_location(n) for n in adapters.tolist()]
    parts_text = ", ".join(a.name.removeprefix(host).strip() for a in parts)
    free = f"; free: {few(str(view.location(p)) for p in ports)}" if ports else ""
    rule = (
        f"{counted(agree, 'host')} of its kind have {usual}"
        if usual
        else f"{_between(c, parts[0])} on the neighbouring hosts"
    )
    evidence: dict[str, Any] = {
        "adapters": len(adapters),
        "usual": usual,
        "hosts": agree,
        "missing": [a.name for a in parts],
    }
    return (
        where,
        f"{host} has {len(adapters)} adapter{'s'[: len(adapters) > 1]}, "
        f"{rule}{f': without {parts_text}' if parts_text else ''}{free}",
        evidence,
    )


def _port_of_the_others(c: Context, adapters: np.ndarray) -> list[int]:
    """Return the leaf port of a missing adapter of a host on rails. It is on the leaf of the rail on which the host has
    no adapter, and has the same number as the leaf ports of the host's other adapters.
    """
    view, f, rails = c.view, c.view.fabric, c.structure.rank
    ports = [p for n in adapters.tolist() for p in f.ports_of(n) if f.port_peer[p] >= 0]
    leaf_ports = f.port_peer[ports]
    number, agree = mode(f.port_num[leaf_ports].astype(np.int64))
    if agree < max(2, len(leaf_ports) // 2):
        return []
    leaves = set(f.port_node[leaf_ports].tolist())
    # The leaves of the unit are those of the hosts at the neighbouring ports of the host's leaves.
    system = system_of(view)
    neighbours: set[int] = set()
    for leaf in leaves:
        for n in (number - 1, number + 1):
            if 1 <= n <= f.node_nports[leaf] and (p := int(f.port_peer[f.node_base[leaf] + n])) >= 0:
                neighbours.add(int(system[f.port_node[p]]))
    neighbours.discard(-1)
    others = np.flatnonzero(np.isin(system, list(neighbours)))
    unit = {int(f.port_node[f.port_peer[p]]) for n in others.tolist() for p in f.ports_of(n) if f.port_peer[p] >= 0}
    lost = [f.node_base[x] + number for x in sorted(unit - leaves) if rails[x] == 1 and f.node_nports[x] >= number]
    return [int(p) for p in lost if f.port_cable[p] < 0]
