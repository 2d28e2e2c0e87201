"""The fluid layer again, slowly and from its definitions: exact fractions, every rate anew after every event."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from softib.fabric.model import Fabric


def route(fabric: Fabric, source: int, target: int, lid: int, sl: int) -> list[tuple[int, int]]:
    """(egress port, VL) of each hop, straight from the tables."""
    hops, at, into = [], source, 0
    vl = lambda row: int(fabric.sl2vl[row, sl // 2]) >> (4 if sl % 2 == 0 else 0) & 15
    if not fabric.is_switch[fabric.port_node[source]]:
        hops.append((source, vl(fabric.sl2vl_base[source])))
        at = int(fabric.port_peer[source])
        into = int(fabric.port_num[at])
    while fabric.is_switch[fabric.port_node[at]]:
        node = int(fabric.port_node[at])
        out = int(fabric.lft[fabric.switch_of_node[node], lid])
        if out == 0:
            break
        egress = int(fabric.port(node, out))
        hops.append((egress, vl(fabric.sl2vl_base[egress] + into)))
        at = int(fabric.port_peer[egress])
        into = int(fabric.port_num[at])
    return hops


@dataclass
class Flow:
    """``path``: channels (link, VL). ``needs``: of other flows."""

    path: list[tuple[int, int]]
    octets: Fraction
    start: Fraction
    needs: list[int] = field(default_factory=list)
    limit: Fraction | None = None


def rates(flows: dict[int, Flow], gbps: dict[int, Fraction], weight: dict[tuple[int, int], int]) -> dict[int, Fraction]:
    """Max-min fair rates: raise all alike, bind those on the link that fills first. VLs of a link share it by weight."""
    found: dict[int, Fraction] = {}
    while len(found) < len(flows):
        levels = {}
        for link in {c[0] for f in flows.values() for c in f.path}:
            on = defaultdict(list)
            for i, f in flows.items():
                for c in f.path:
                    if c[0] == link:
                        on[c].append(i)
            waiting = {c: [i for i in members if i not in found] for c, members in on.items()}
            used = {c: sum((found[i] for i in members if i in found), Fraction(0)) for c, members in on.items()}
            room = gbps[link] - sum((used[c] for c in on if not waiting[c]), Fraction(0))
            total = sum(weight.get(c, 1) for c in on if waiting[c])
            for c in on:
                if waiting[c]:
                    levels[c] = (room * weight.get(c, 1) / total - used[c]) / len(waiting[c])
        limits = {i: f.limit for i, f in flows.items() if i not in found and f.limit is not None}
        least = min([*levels.values(), *limits.values()])
        bound = {i for i, at in limits.items() if at == least}
        for c, level in levels.items():
            if level == least:
                bound |= {i for i, f in flows.items() if i not in found and c in f.path}
        found.update(dict.fromkeys(bound, least))
    return found


def ends(
    flows: list[Flow],
    gbps: dict[int, Fraction],
    weight: dict[tuple[int, int], int] | None = None,
    delay: dict[int, int] | None = None,
) -> list[Fraction]:
    """When the last octet of each flow leaves, in ps. ``delay[i]``: ps from then on until those who need flow i may begin."""
    left = [f.octets for f in flows]
    done: dict[int, Fraction] = {}
    now = Fraction(0)
    ready = lambda f: max([f.start, *(done[k] + (delay or {}).get(k, 0) for k in f.needs)])
    while len(done) < len(flows):
        may = {i: f for i, f in enumerate(flows) if i not in done and all(k in done for k in f.needs)}
        sending = {i: f for i, f in may.items() if ready(f) <= now}
        later = [ready(f) for i, f in may.items() if i not in sending]
        got = rates(sending, gbps, weight or {})
        until = min([*(now + left[i] * 8000 / got[i] for i in sending), *later])
        for i in sending:
            left[i] -= got[i] * (until - now) / 8000
            if left[i] == 0:
                done[i] = until
        now = until
    return [done[i] for i in range(len(flows))]


def octets(size: int, mtu: int = 4096) -> int:
    """A WRITE of RC on the wire: LRH, BTH, ICRC and VCRC of each packet, RETH of the first (IBA 9.2, 9.4.3)."""
    packets = -(-size // mtu)
    return -(-size // 4) * 4 + packets * (8 + 12 + 4 + 2) + 16


def link_rates(fabric: Fabric) -> dict[int, Fraction]:
    """Gb/s of each port's link."""
    from softib.fabric.end_ports import port_gbps

    return {p: Fraction(float(g)) for p, g in enumerate(np.asarray(port_gbps(fabric)))}
