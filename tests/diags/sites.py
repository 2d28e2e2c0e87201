"""Sites as they are built: switches, hosts and cables as plain lists, and faults that edit these lists.

Nothing here knows what any check looks at. A site is turned into the fabric that a scan of it would find, so a dead node is
not there and neither are its cables. Every fault returns the places that a good finding names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType

Port = tuple[str, int]


@dataclass
class Site:
    """``nodes``: key → (is a switch, ports, NodeDescription); ``cables``: pairs of (key, port number). ``key_of``: NodeGUID → key in the
    fabric made last."""

    nodes: dict[str, tuple[bool, int, str]] = field(default_factory=dict)
    cables: list[tuple[Port, Port]] = field(default_factory=list)
    rails: int = 1
    key_of: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, fabric: Fabric) -> Site:
        """A generated fabric, whose names are unique."""
        site, names = cls(), fabric.node_names()
        for row, name in enumerate(names):
            site.nodes[name] = (bool(fabric.is_switch[row]), int(fabric.node_nports[row]), name)
        for p, q in fabric.cable_port.tolist():
            a, c = ((names[int(fabric.port_node[x])], int(fabric.port_num[x])) for x in (p, q))
            site.cables.append((a, c))
        return site

    def copy(self) -> Site:
        return Site(dict(self.nodes), list(self.cables), self.rails)

    def fabric(self) -> Fabric:
        b = FabricBuilder("site")
        rows: dict[str, int] = {}
        for switch in (True, False):
            keys = [k for k, n in self.nodes.items() if n[0] is switch]
            for ports in sorted({self.nodes[k][1] for k in keys}):
                some = [k for k in keys if self.nodes[k][1] == ports]
                made = b.nodes(
                    len(some), NodeType.SWITCH if switch else NodeType.CA, ports, desc=[self.nodes[k][2] for k in some]
                )
                rows.update(zip(some, made.tolist(), strict=True))
        ends = [[rows[a[0]], a[1], rows[c[0]], c[1]] for a, c in self.cables]
        a, p, c, q = np.array(ends, np.int64).T
        b.links(a, p, c, q)
        fabric = b.build()
        self.key_of = {int(fabric.node_guid[row]): key for key, row in rows.items()}
        fabric.source.format = "ibnetdiscover"
        fabric.source.records = frozenset()
        return fabric

    # -- what the faults need --

    def switches(self, prefix: str) -> list[str]:
        return [k for k in self.nodes if k.startswith(prefix)]

    def at(self, key: str) -> list[tuple[int, Port]]:
        """(own port, peer) of each cable of a node, by port number."""
        out = [(a[1], c) for a, c in self.cables if a[0] == key] + [(c[1], a) for a, c in self.cables if c[0] == key]
        return sorted(out)

    def hosts_of(self, leaf: str) -> list[tuple[int, Port]]:
        return [(p, peer) for p, peer in self.at(leaf) if not self.nodes[peer[0]][0]]

    def without(self, keys: set[str]) -> None:
        self.cables = [c for c in self.cables if not {c[0][0], c[1][0]} & keys]
        for k in keys:
            del self.nodes[k]

    def replug(self, at: dict[Port, Port]) -> None:
        """Move plugs: the end at each port of ``at`` goes into the port it maps to (all at once)."""
        self.cables = [(at.get(a, a), at.get(c, c)) for a, c in self.cables]

    def free(self, key: str) -> list[int]:
        used = {p for p, _ in self.at(key)}
        return [p for p in range(1, self.nodes[key][1] + 1) if p not in used]


# -- sites --

Name = Callable[[int, int], str]
"""NodeDescription of a host by its leaf (group) and its place there."""


def tree(
    leaves: int = 20,
    hosts: int = 18,
    spines: int = 9,
    parallel: int = 2,
    *,
    radix: int = 40,
    leaf: str = "leaf-{:02d}",
    spine: str = "spine-{:02d}",
    host: Name = lambda g, i: f"node-{g * 18 + i + 1:04d} mlx5_0",
) -> Site:
    """Leaves with hosts at ports 1…, uplinks behind them; leaf k at ports k·parallel… of every spine."""
    s = Site()
    for k in range(leaves):
        s.nodes[f"leaf{k}"] = (True, radix, leaf.format(k + 1))
    for m in range(spines):
        s.nodes[f"spine{m}"] = (True, max(radix, leaves * parallel + 40), spine.format(m + 1))
    for k in range(leaves):
        for i in range(hosts):
            s.nodes[f"host{k}.{i}"] = (False, 1, host(k, i))
            s.cables.append(((f"leaf{k}", i + 1), (f"host{k}.{i}", 1)))
        for m in range(spines):
            for x in range(parallel):
                s.cables.append(((f"leaf{k}", 21 + m * parallel + x), (f"spine{m}", k * parallel + x + 1)))
    return s


def serials(units: int = 4, hosts: int = 30, rails: int = 4, *, consecutive: bool = False) -> Site:
    """Hosts called by serial numbers without separators (``ABC201234567089 ibp11s0f0``), ``rails`` adapters each, and switches without names."""
    s, rng = Site(rails=rails), np.random.default_rng(11)
    cards = ["ibp11s0f0", "ibp31s0f0", "ibp90s0f0", "ibp129s0f0"][:rails]
    numbers = rng.permutation(90_000)[: units * hosts] + 201_234_500_000
    for m in range(8):
        s.nodes[f"spine{m}"] = (True, 40, "Quantum Mellanox Technologies")
    for u in range(units):
        for r in range(rails):
            leaf = u * rails + r
            s.nodes[f"leaf{leaf}"] = (True, 64, "Quantum Mellanox Technologies")
            for m in range(8):
                for x in range(2):
                    s.cables.append(((f"leaf{leaf}", 41 + 2 * m + x), (f"spine{m}", 2 * leaf + x + 1)))
    for h in range(units * hosts):
        number = 201_234_567_001 + h if consecutive else int(numbers[h])
        for r, card in enumerate(cards):
            s.nodes[f"host{h}.{r}"] = (False, 1, f"ABC{number} {card}")
            s.cables.append(((f"leaf{h // hosts * rails + r}", h % hosts + 1), (f"host{h}.{r}", 1)))
    return s


def directors(
    count: int = 3,
    boards: tuple[int, ...] = tuple(n for n in range(1, 37) if n % 4),
    edges: int = 72,
    bare: int = 16,
    uplinks: int = 6,
) -> Site:
    """``count`` directors with the same slots filled (one chip a board) and 18 spine chips each; ``edges`` leaves below them, of which ``bare``
    have no hosts yet."""
    s = Site()
    for d in range(1, count + 1):
        for n in boards:
            s.nodes[f"line{d}.{n}"] = (True, 36, f"MF0;core{d}:CS7500/L{n:02d}/U1")
        for m in range(18):
            s.nodes[f"fab{d}.{m}"] = (True, 36, f"MF0;core{d}:CS7500/S{m // 2 + 1:02d}/U{m % 2 + 1}")
        s.cables += [((f"line{d}.{n}", 19 + m), (f"fab{d}.{m}", n)) for n in boards for m in range(18)]
    for k in range(edges):
        s.nodes[f"leaf{k}"] = (True, 36, "Quantum Mellanox Technologies")
        port = 19
        for d in range(1, count + 1):
            for u in range(uplinks):
                slot = boards[(k * uplinks + u) % len(boards)]
                s.cables.append(((f"leaf{k}", port), (f"line{d}.{slot}", 1 + (k * uplinks + u) // len(boards))))
                port += 1
        for i in range(0 if k < bare else 18):
            s.nodes[f"host{k}.{i}"] = (False, 1, f"node{k * 18 + i:04d} HCA-1")
            s.cables.append(((f"leaf{k}", i + 1), (f"host{k}.{i}", 1)))
    return s


def uneven(right: int = 28, leaves: int = 79, seed: int = 3) -> tuple[Site, set[str]]:
    """Leaves with 18 uplinks, two to each of nine spines; all but ``right`` of them lack one to three, or have one at another spine. The site,
    and these leaves."""
    unnamed = "Quantum Mellanox Technologies"
    s, rng = tree(leaves=leaves, leaf=unnamed, spine=unnamed), np.random.default_rng(seed)
    wrong = set(_some(rng, s.switches("leaf"), leaves - right))
    for n, leaf in enumerate(sorted(wrong)):
        up = [(p, peer) for p, peer in s.at(leaf) if s.nodes[peer[0]][0]]
        if n % 3 == 0:
            _, peer = up[rng.integers(len(up))]
            to = next(m for m in rng.permutation(9).tolist() if f"spine{m}" != peer[0])
            s.replug({peer: (f"spine{to}", s.free(f"spine{to}")[0])})
        else:
            for i in rng.permutation(len(up))[: 1 + n % 3].tolist():
                s.cables.remove(next(c for c in s.cables if (leaf, up[i][0]) in c))
    return s, wrong


SITES: dict[str, Callable[[], Site]] = {
    "names": tree,
    "one-number": lambda: tree(parallel=1, spines=18, host=lambda g, i: f"n{g * 18 + i + 1}"),
    "racks": lambda: tree(leaf="ib-r{:02d}", spine="ib-core{:d}", host=lambda g, i: f"r{g + 1:02d}-n{i + 1:02d} HCA-1"),
    "nameless": lambda: tree(leaf="Quantum Mellanox Technologies", spine="Quantum Mellanox Technologies"),
    "columns": lambda: tree(leaves=16, hosts=16, spines=8, host=lambda g, i: f"c{i * 16 + g + 1:04d}"),
    "serials": serials,
    "serials-in-order": lambda: serials(consecutive=True),
}


# -- faults: each changes a site and returns what a finding should name --


@dataclass(frozen=True)
class Truth:
    """``ports`` of which a finding holds most, and ``words`` that its message or evidence has."""

    ports: frozenset[Port] = frozenset()
    words: tuple[str, ...] = ()


Fault = Callable[[Site, np.random.Generator], list[Truth]]


def _some(rng: np.random.Generator, keys: list[str], n: int) -> list[str]:
    return [keys[i] for i in rng.permutation(len(keys))[:n]]


def dead_leaves(n: int) -> Fault:
    def plant(s: Site, rng: np.random.Generator) -> list[Truth]:
        chosen = _some(rng, s.switches("leaf")[1:-1], n)
        truth = []
        for leaf in chosen:
            up = {peer for _, peer in s.at(leaf) if s.nodes[peer[0]][0]}
            truth.append(Truth(frozenset(up), (s.nodes[leaf][2],) if "Technologies" not in s.nodes[leaf][2] else ()))
        for leaf in chosen:
            s.without({leaf, *(peer[0] for _, peer in s.hosts_of(leaf))})
        return truth

    return plant


def dead_spines(n: int) -> Fault:
    def plant(s: Site, rng: np.random.Generator) -> list[Truth]:
        chosen = _some(rng, s.switches("spine")[1:-1], n)
        truth = [Truth(frozenset(peer for _, peer in s.at(x))) for x in chosen]
        s.without(set(chosen))
        return truth

    return plant


def dead_host(s: Site, rng: np.random.Generator) -> list[Truth]:
    leaf = _some(rng, s.switches("leaf"), 1)[0]
    inner = s.hosts_of(leaf)[1:-1]
    _, (key, _) = inner[rng.integers(len(inner))]
    adapters = [f"{key.split('.')[0]}.{r}" for r in range(s.rails)] if s.rails > 1 else [key]
    ports = frozenset(peer for k in adapters for _, peer in s.at(k))
    s.without(set(adapters))
    return [Truth(ports)]


def lost_adapter(s: Site, rng: np.random.Generator) -> list[Truth]:
    key = _some(rng, s.switches("host"), 1)[0]
    name = s.nodes[key][2].split()[0]
    s.without({key})
    return [Truth(words=(name,))]


def exchanged_hosts(s: Site, rng: np.random.Generator) -> list[Truth]:
    """All adapters of two hosts under different leaves in each other's ports."""
    hosts = sorted({k.split(".")[0] for k in s.switches("host")}) if s.rails > 1 else s.switches("host")
    while True:
        one, other = _some(rng, hosts, 2)
        if s.rails == 1:
            pairs = [(one, other)]
        else:
            pairs = [(f"{one}.{r}", f"{other}.{r}") for r in range(s.rails)]
        if s.at(pairs[0][0])[0][1][0] != s.at(pairs[0][1])[0][1][0]:
            break
    moves: dict[Port, Port] = {}
    for a, c in pairs:
        (_, pa), (_, pc) = s.at(a)[0], s.at(c)[0]
        moves |= {pa: pc, pc: pa}
    ports = frozenset(moves)
    s.replug(moves)
    return [Truth(ports)]


def exchanged_racks(s: Site, rng: np.random.Generator) -> list[Truth]:
    one, other = _some(rng, s.switches("leaf"), 2)
    a, c = s.hosts_of(one), s.hosts_of(other)
    moves = {(one, p): (other, p) for p, _ in a} | {(other, p): (one, p) for p, _ in c}
    truth = Truth(frozenset(moves))
    s.replug(moves)
    return [truth]


def shifted(s: Site, rng: np.random.Generator) -> list[Truth]:
    """A leaf's hosts one port further each; the last one at the first port."""
    leaf = _some(rng, s.switches("leaf"), 1)[0]
    ports = [p for p, _ in s.hosts_of(leaf)]
    s.replug({(leaf, p): (leaf, q) for p, q in zip(ports, [*ports[1:], ports[0]], strict=True)})
    return [Truth(frozenset((leaf, p) for p in ports))]


def moved_up(s: Site, rng: np.random.Generator) -> list[Truth]:
    """The same without turning around: the first port is free, the one behind the last in use."""
    leaf = _some(rng, s.switches("leaf"), 1)[0]
    ports = [p for p, _ in s.hosts_of(leaf)]
    s.replug({(leaf, p): (leaf, p + 1) for p in ports})
    return [Truth(frozenset((leaf, p + 1) for p in ports))]


def swapped_at_a_leaf(s: Site, rng: np.random.Generator) -> list[Truth]:
    leaf = _some(rng, s.switches("leaf"), 1)[0]
    (p, _), (q, _) = (s.hosts_of(leaf)[i] for i in rng.permutation(len(s.hosts_of(leaf)))[:2])
    s.replug({(leaf, p): (leaf, q), (leaf, q): (leaf, p)})
    return [Truth(frozenset({(leaf, p), (leaf, q)}))]


def exchange(s: Site, one: str, other: str) -> Truth:
    """Move every cable of two switches to the same port of the other."""
    ports = {(a, p): (c, p) for a, c in ((one, other), (other, one)) for p, _ in s.at(a)}
    s.replug(ports)
    return Truth(frozenset(ports.values()))


def sideways(tier: str, n: int = 1) -> Fault:
    def plant(s: Site, rng: np.random.Generator) -> list[Truth]:
        truth = []
        for _ in range(n):
            one, other = _some(rng, s.switches(tier), 2)
            ends = (one, s.free(one)[-1]), (other, s.free(other)[-1])
            s.cables.append(ends)
            truth.append(Truth(frozenset(ends)))
        return truth

    return plant


FAULTS: dict[str, Fault] = {
    "one dead leaf": dead_leaves(1),
    "two dead leaves": dead_leaves(2),
    "three dead leaves": dead_leaves(3),
    "one dead spine": dead_spines(1),
    "two dead spines": dead_spines(2),
    "dead host": dead_host,
    "lost adapter": lost_adapter,
    "exchanged hosts": exchanged_hosts,
    "exchanged racks": exchanged_racks,
    "hosts turned by a port": shifted,
    "hosts moved up a port": moved_up,
    "two hosts swapped at a leaf": swapped_at_a_leaf,
    "leaf to leaf": sideways("leaf"),
    "spine to spine": sideways("spine"),
    "two leaf to leaf": sideways("leaf", 2),
}
MOST = 0.8
"""Share of a fault's ports that a finding holds which names it."""
CROWD = 1.5
"""A finding with more places than this many times the fault's ports names nothing in particular."""


@dataclass
class Recall:
    """``named`` of ``planted`` faults, and new findings that name none of them."""

    planted: int = 0
    named: int = 0
    stray: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.named} of {self.planted}" + (f", {len(self.stray)} stray" if self.stray else "")


def recall(site: str, fault: str, seeds: range) -> Recall:
    """Plant ``fault`` in ``site`` once a seed, and judge what a check says beyond what it says of the clean site."""
    made = SITES[site]()
    clean = {(f.code, f.message) for f in check(made.fabric())}
    out = Recall()
    for seed in seeds:
        s = made.copy()
        truth = FAULTS[fault](s, np.random.default_rng([seed, len(fault)]))
        new = [f for f in check(s.fabric()) if (f.code, f.message) not in clean]
        for t in truth:
            hit = any(names(s, f, t, truth) for f in new)
            out.planted += 1
            out.named += hit
            if not hit:
                out.missed.append(
                    f"seed {seed}: {sorted(t.ports)[:4]} {t.words}: {[(f.code, f.message[:120]) for f in new][:3]}"
                )
        nodes = {p[0] for t in truth for p in t.ports}
        out.stray += [
            f"{f.code}: {f.message[:140]}"
            for f in new
            if not {s.key_of[p.guid] for p in f.where} & nodes
            and not any(w in f.message for t in truth for w in t.words)
        ]
    return out


def names(s: Site, f: Finding, t: Truth, every: list[Truth]) -> bool:
    text = f.message + str(f.evidence)
    if not all(w in text for w in t.words):
        return False
    places = {(s.key_of[p.guid], p.portnum) for p in f.where if p.portnum is not None}
    of_all = sum(len(x.ports) for x in every)
    return len(t.ports & places) >= MOST * len(t.ports) and len(places) <= 2 + CROWD * max(2 * len(t.ports), of_all)
