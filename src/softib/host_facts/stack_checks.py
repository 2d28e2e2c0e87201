"""Faults in the software stacks of hosts: a version or setting conflicts with the host's hardware or the support
matrix, or differs from that of the other hosts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from softib.host_facts.stack_facts import HostStack, StackFact
from softib.host_facts.support_matrix import MatrixRow, requirements_of
from softib.plural import counted
from softib.result import Result

__all__ = ["StackFault", "stack_faults"]

ITSELF = ("gpu", "gpu-numa-node", "numa-distance", "virtual-function", "virtual-function-guid", "psid")
"""Facts that identify a host and so are not compared between hosts."""
VF_SOURCE = "MLNX_OFED 24.10 documentation, Single Root IO Virtualization"


@dataclass(frozen=True)
class StackFault(Result):
    """One way in which a software stack differs from its expected state. ``source``: where the requirement comes from;
    ``hosts`` if the other hosts have another value."""

    check: str
    host: str
    where: str
    value: str
    expected: str
    source: str

    def __str__(self) -> str:
        at = f"{self.host}: {self.where}" if self.where else self.host
        return f"{at}: {self.check}: {self.value}; expected {self.expected} ({self.source})"


def stack_faults(hosts: Sequence[HostStack], rows: list[MatrixRow]) -> list[StackFault]:
    """Return the faults of all hosts, by host."""
    faults: dict[str, list[StackFault]] = {h.source: [] for h in hosts}
    for host in hosts:
        for row, fact in requirements_of(host, rows):
            where, value = (fact.where, fact.value) if fact else ("", "unknown")
            faults[host.source].append(StackFault(row.fact, host.host, where, value, str(row), row.source))
        faults[host.source] += [*_pcie(host), *_mtu(host), *_numa(host), *_virtual_functions(host)]
        unread = (StackFault("unread", host.host, "", line, "readable files", "host") for line in host.unread)
        faults[host.source] += unread
    refused = {(source, fault.check, fault.where) for source, listed in faults.items() for fault in listed}
    for source, fault in _mixed(hosts, refused):
        faults[source].append(fault)
    return [fault for host in hosts for fault in faults[host.source]]


def _pcie(host: HostStack) -> Iterator[StackFault]:
    for a in host.adapters:
        link = a.pcie
        if link is not None and (link.gts < link.most_gts or link.width < link.most_width):
            has, wanted = f"{link.gts:g} GT/s x{link.width}", f"{link.most_gts:g} GT/s x{link.most_width}"
            yield StackFault("pcie", host.host, a.name, has, wanted, "max_link_speed and max_link_width of the card")


def _mtu(host: HostStack) -> Iterator[StackFault]:
    active = {f"{a.name}/{p.number}" for a in host.adapters for p in a.ports if p.state == "ACTIVE"}
    for fact in host.settings:
        largest = fact.kind.removeprefix("of ")
        if fact.name == "mtu" and fact.where in active and fact.value != largest:
            yield StackFault("mtu", host.host, fact.where, fact.value, largest, "max_mtu of the port")


def _numa(host: HostStack) -> Iterator[StackFault]:
    nodes = [f for f in host.settings if f.name == "numa-distance" and f.where[4:].isdigit()]
    distances = {int(f.where[4:]): [int(d) for d in f.value.split() if d.isdigit()] for f in nodes}
    if len(distances) < 2:
        return
    adapter_nodes = {a.numa_node for a in host.adapters} - {-1}
    for a in host.adapters:
        if a.numa_node < 0:
            yield StackFault("numa", host.host, a.name, "no NUMA node", "one", f"the host has {len(distances)}")
    for fact in host.settings:
        if fact.name != "gpu-numa-node" or not fact.value.isdigit() or int(fact.value) not in distances:
            continue
        row = distances[int(fact.value)]
        nearest = min((row[n] for n in adapter_nodes if n < len(row)), default=0)
        if nearest > min(row):
            text = f"its nearest adapter is at distance {nearest}"
            yield StackFault("numa", host.host, fact.where, text, f"distance {min(row)}", "/sys/devices/system/node")


def _virtual_functions(host: HostStack) -> Iterator[StackFault]:
    for fact in host.settings:
        if fact.name == "virtual-function-guid" and not fact.value.strip("0:"):
            yield StackFault("vf-guid", host.host, fact.where, "no GUID", "one", VF_SOURCE)
    virtual = {f.where for f in host.settings if f.name == "virtual-function"}
    for a in host.adapters:
        for p in a.ports:
            if a.name in virtual and not p.pkeys:
                yield StackFault("vf-pkey", host.host, f"{a.name}/{p.number}", "no P_Key", "one or more", "IBA 10.9.1")


def _mixed(hosts: Sequence[HostStack], refused: set[tuple[str, str, str]]) -> Iterator[tuple[str, StackFault]]:
    """Yield facts that differ between adapters of one kind, and between hosts. If most of them have the same value, the
    others are expected to have it too, except a value that is ``refused`` anywhere (source, fact, place). Without such
    a majority, the finding only reports that the values differ."""
    groups: dict[tuple[str, str], list[tuple[HostStack, StackFact]]] = defaultdict(list)
    for host in hosts:
        for fact in host.settings:
            if fact.name not in ITSELF:
                groups[fact.name, fact.kind or (fact.where if fact.name.isupper() else "")].append((host, fact))
    for (name, _), members in groups.items():
        counts = Counter(fact.value for _, fact in members)
        if len(counts) < 2:
            continue
        bad = {fact.value for host, fact in members if (host.source, fact.name, fact.where) in refused}
        good = [value for value in counts if value not in bad]
        usual = next((value for value in good if 2 * counts[value] > len(members)), "")
        single, plural = ("adapter", "adapters") if members[0][1].kind else ("host", "hosts")
        of = counted(len(members), single)
        if usual:
            expected, right = f"{usual}, as {counts[usual]} of {of}", {usual}
        else:
            listed = ", ".join(f"{value} ({counts[value]})" for value in sorted(counts, key=lambda v: (-counts[v], v)))
            expected, right = f"one value; {of} have {listed}", set(good) if len(good) == 1 else set()
        for host, fact in members:
            if fact.value not in right:
                check = f"mixed-{_letters(name)}"
                yield host.source, StackFault(check, host.host, fact.where, fact.value, expected, plural)


def _letters(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")
