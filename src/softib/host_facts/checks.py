"""Compare a host with its manifest, and its counters with those of the last run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from softib.host_facts.facts import AdapterFacts, HostFacts, PortFacts
from softib.host_facts.manifest import AdapterWanted, Manifest, PortWanted
from softib.result import Result

__all__ = ["NodeFault", "counters_of", "node_faults"]

ACTIVE = "ACTIVE"
LEAST_HOURS = 1 / 60
"""Minimum time in hours for which the allowed rise of a counter is computed: counters that are read again within a
minute may rise as much as in a whole minute."""


@dataclass(frozen=True)
class NodeFault(Result):
    """One way in which a host differs from its expected state."""

    check: str
    """``adapter-missing``, ``port-state``, ``rate``, ``lanes``, ``firmware``, ``psid``, ``pcie``,
    ``gids``, ``pkeys``, ``link-layer``, ``counter``, ``unread``."""
    adapter: str
    port: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        where = self.adapter if self.port is None else f"{self.adapter}/{self.port}"
        return f"{where or 'host'}: {self.check}: {self.found}; expected {self.expected}"


def node_faults(
    host: HostFacts, manifest: Manifest, before: Mapping[str, Any] | None = None, hours: float = 0.0
) -> list[NodeFault]:
    """Return how ``host`` deviates from its manifest. ``before``: the host's counters (:func:`counters_of`) ``hours``
    ago.

    If a manifest does not state otherwise, every InfiniBand port must be ACTIVE, every PCIe link as fast and wide as
    its card, and all ports of one kind of adapter as fast as the fastest.
    """
    faults = [*_missing(host, manifest)]
    for a in host.adapters:
        wanted = next((w for name, w in manifest.adapters.items() if fnmatchcase(a.name, name)), None)
        if wanted is None and manifest.adapters:
            continue
        faults += _of_adapter(a, wanted or AdapterWanted())
        for p in a.ports:
            explicit = None if wanted is None else wanted.ports.get(p.number)
            usual = _fastest(host, a) if explicit is None or explicit.gbps is None else 0.0
            faults += _of_port(a, p, explicit or PortWanted(), usual)
            faults += _of_counters(a, p, manifest.counters, before or {}, hours)
    faults += [NodeFault("unread", "", None, "readable files", line) for line in host.unread]
    return faults


def counters_of(host: HostFacts) -> dict[str, dict[str, int]]:
    """Return ``adapter/port`` → counters."""
    return {f"{a.name}/{p.number}": dict(p.counters) for a in host.adapters for p in a.ports}


def _missing(host: HostFacts, manifest: Manifest) -> Iterator[NodeFault]:
    for name, wanted in manifest.adapters.items():
        matches = sum(fnmatchcase(a.name, name) for a in host.adapters)
        if (wanted.count is None and not matches) or (wanted.count is not None and matches < wanted.count):
            yield NodeFault("adapter-missing", name, None, str(wanted.count or "one or more"), str(matches))
    if not manifest.adapters and not host.adapters:
        yield NodeFault("adapter-missing", "", None, "one or more", "0")


def _of_adapter(a: AdapterFacts, wanted: AdapterWanted) -> Iterator[NodeFault]:
    for check, want, has in (("firmware", wanted.firmware, a.firmware), ("psid", wanted.psid, a.psid)):
        if want is not None and want != has:
            yield NodeFault(check, a.name, None, want, has or "unknown")
    link = a.pcie
    gts = wanted.gts if wanted.gts is not None else link.most_gts if link else 0.0
    width = wanted.width if wanted.width is not None else link.most_width if link else 0
    if (gts or width) and (link is None or link.gts < gts or link.width < width):
        has = "unknown" if link is None else f"{link.gts:g} GT/s x{link.width}"
        yield NodeFault("pcie", a.name, None, f"{gts:g} GT/s x{width}", has)
    for number in wanted.ports:
        if all(p.number != number for p in a.ports):
            yield NodeFault("port-state", a.name, number, "a port", "none")


def _fastest(host: HostFacts, a: AdapterFacts) -> float:
    return max((p.gbps for o in host.adapters if o.kind == a.kind for p in o.ports if p.state == ACTIVE), default=0.0)


def _of_port(a: AdapterFacts, p: PortFacts, wanted: PortWanted, usual: float) -> Iterator[NodeFault]:
    fault = lambda check, want, has: NodeFault(check, a.name, p.number, want, has or "unknown")
    state = wanted.state or (ACTIVE if p.link_layer in ("InfiniBand", "") else None)
    if state is not None and p.state != state:
        yield fault("port-state", state, f"{p.state} ({p.physical_state})" if p.physical_state else p.state)
    elif (p.gbps < (wanted.gbps or usual)) and state == ACTIVE:
        yield fault("rate", f"{wanted.gbps or usual:g} Gb/s", p.rate)
    if wanted.lanes is not None and p.lanes < wanted.lanes and p.state == ACTIVE:
        yield fault("lanes", f"{wanted.lanes}X", f"{p.lanes}X")
    if wanted.link_layer is not None and p.link_layer != wanted.link_layer:
        yield fault("link-layer", wanted.link_layer, p.link_layer)
    if wanted.gids is not None and len(p.gids) < wanted.gids:
        yield fault("gids", f"{wanted.gids} or more", str(len(p.gids)))
    missing = [k for k in wanted.pkeys or () if k not in p.pkeys]
    if missing:
        has = ", ".join(f"{k:#06x}" for k in p.pkeys) or "none"
        yield fault("pkeys", ", ".join(f"{k:#06x}" for k in missing), has)


def _of_counters(
    a: AdapterFacts, p: PortFacts, limits: Mapping[str, float], before: Mapping[str, Any], hours: float
) -> Iterator[NodeFault]:
    last = before.get(f"{a.name}/{p.number}")
    if not isinstance(last, Mapping):
        return
    for name, limit in limits.items():
        now, then = p.counters.get(name), last.get(name)
        if now is None or not isinstance(then, int):
            continue
        risen = now - then if now >= then else now  # smaller: the counter was cleared meanwhile
        if risen > limit * max(hours, LEAST_HOURS) and risen > 0:
            text = f"{name} up by {risen:,} in {hours:.2g} h"
            yield NodeFault("counter", a.name, p.number, f"{name} up by {limit:g} an hour at most", text)
