"""What the stories of bench/alert_stories.py play, and which alerts must stand at the end of each: one for each cause.

Times are shares of a round. A cable is the names of its ends, which an alert names in either order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

KINDS: dict[str, Callable[[Site], None]] = {}
Alert = tuple[str, str, frozenset[str]]
"""Name of the alert, code of the finding ("" where there is none), and what it names."""


@dataclass
class Site:
    """One fabric of a round: a fat tree of ``leaves`` with half of ``radix`` hosts each, its cables optical.

    ``plays``: (share of the round, what to do, arguments); ``alerts``: those that must stand at the end.
    """

    name: str
    seed: int
    generation: str
    leaves: int
    radix: int
    paced: bool = False
    kinds: list[str] = field(default_factory=list)
    plays: list[tuple[float, str, tuple[str, ...]]] = field(default_factory=list)
    alerts: set[Alert] = field(default_factory=set)
    _rng: random.Random = field(init=False)
    _leaves: list[int] = field(init=False)
    _spines: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._leaves = list(range(2, self.leaves + 1))  # the exporter is on the first host of the first leaf
        self._rng.shuffle(self._leaves)
        self._spines = list(range(1, self.leaves // 2 + 1))
        self._rng.shuffle(self._spines)
        self.taken: set[str] = set()

    @property
    def hosts_a_leaf(self) -> int:
        return self.radix // 2

    @property
    def yaml(self) -> str:
        """Its fabric.yaml."""
        return (
            f"name: {self.name}\ngeneration: {self.generation}\ncables: {{medium: AOC, length_m: 20}}\n"
            f"topology: {{kind: fat-tree, radix: {self.radix}, levels: 2, hosts: {self.leaves * self.hosts_a_leaf}}}\n"
        )

    # -- what a cause is planted on; no two on one leaf or spine --

    def leaf(self) -> int:
        return self._leaves.pop()

    def spine(self) -> str:
        """A spine that no cable with a cause of its own leads to."""
        self.taken.add(name := f"spine-{self._spines.pop()}")
        return name

    def host(self, leaf: int, k: int = 1) -> str:
        return f"host-{(leaf - 1) * self.hosts_a_leaf + k:04}"

    def play(self, at: float, what: str, *arguments: str) -> None:
        self.plays.append((at, what, arguments))

    def fault(self, at: float, *words: str) -> None:
        self.play(at, "fault", *words)

    def expect(self, alert: str, *names: str, code: str = "") -> None:
        self.alerts.add((alert, code, frozenset(names)))

    def when(self, first: float = 0.1, last: float = 0.5) -> float:
        return round(self._rng.uniform(first, last), 3)


def kind(plant: Callable[[Site], None]) -> Callable[[Site], None]:
    KINDS[plant.__name__] = plant
    return plant


UP = "up"
"""Placeholder of a leaf's port to a spine; the runner knows the number, and what is at the other end."""


def cable(leaf: int) -> str:
    return f"{UP}:leaf-{leaf}"


def cable_fault(name: str, code: str, fault: str, *words: str) -> None:
    """A kind called ``name``: ``fault`` at a cable, with ``words``, which a finding of this code names."""

    def plant(site: Site) -> None:
        at = cable(site.leaf())
        site.fault(site.when(), fault, at, *words)
        site.expect("SoftibFinding", at, code=code)

    KINDS[name] = plant


@kind
def nothing(site: Site) -> None:
    """A fabric that idles."""


@kind
def healthy_traffic(site: Site) -> None:
    """Pairs across spines, then three senders to one host."""
    site.play(0.15, "traffic", "pairs")
    site.play(0.45, "traffic", "incast")


@kind
def spine_down(site: Site) -> None:
    name = site.spine()
    site.fault(site.when(), "switch-down", name)
    site.expect("SoftibSwitchDown", name)


@kind
def leaf_down(site: Site) -> None:
    name = f"leaf-{site.leaf()}"
    site.fault(site.when(), "switch-down", name)
    site.expect("SoftibSwitchDown", name)


@kind
def cable_down(site: Site) -> None:
    at = cable(site.leaf())
    site.fault(site.when(), "link-down", at)
    site.expect("SoftibLinkDown", at)


@kind
def host_off(site: Site) -> None:
    name = site.host(site.leaf())
    site.fault(site.when(), "link-down", f"{name}[1]")
    site.expect("SoftibHostDown", name)


cable_fault("flapping", "link-flaps", "flap", "--period", "3")


@kind
def fell_once(site: Site) -> None:
    at = cable(site.leaf())
    begin = site.when()
    site.fault(begin, "link-down", at)
    site.fault(begin + 0.1, "link-up", at)
    site.expect("SoftibFinding", at, code="link-flaps")


@kind
def bit_errors(site: Site) -> None:
    """Beyond what a code corrects: of a link without FEC."""
    at = cable(site.leaf())
    fec = site.generation in ("HDR", "NDR")
    site.fault(site.when(), "ber", at, "5e-4" if fec else "1e-9")
    site.expect("SoftibFinding", at, code="link-pre-fec-errors" if fec else "link-bit-errors")


cable_fault("narrow", "link-narrow", "downgrade", "--width", "1")
cable_fault("slow", "link-slow", "downgrade", "--speed", "SDR")
cable_fault("little_light", "module-rx-power", "attenuation", "7.2")
cable_fault("weak_laser", "module-tx-power", "weak-laser", "7.2")
cable_fault("hot_module", "module-temperature", "hot-module", "88")


@kind
def slow_host(site: Site) -> None:
    """A host that drains an eighth of its link while others send to it."""
    name = site.host(site.leaf())
    site.fault(0.1, "slow-port", f"{name}[1]", "2")
    site.play(0.3, "traffic", "to", name)
    site.expect("SoftibFinding", f"{name}[1]", code="slow-receiver")


cable_fault("no_flow_control", "flow-control-errors", "flow-control", "0.15")


@kind
def switch_restarts(site: Site) -> None:
    """Without power for a while: nothing stands when it is back."""
    name = site.spine()
    site.fault(0.15, "switch-down", name)
    site.fault(0.4, "switch-up", name)


@kind
def other_system_guid(site: Site) -> None:
    """A trap, and nothing wrong."""
    site.fault(site.when(), "sys-guid", f"leaf-{site.leaf()}", "--guid", "0x1234")


def after_others(site: Site) -> float:
    """A time from which what was played before has its alerts: what an exporter has not seen, it cannot report."""
    return max([site.when(0.3, 0.6), *(at + 0.2 for at, _, _ in site.plays)])


@kind
def exporter_killed(site: Site) -> None:
    site.play(after_others(site), "kill")
    site.expect("SoftibExporterGone")


@kind
def exporter_hangs(site: Site) -> None:
    site.play(after_others(site), "hang")
    site.expect("SoftibExporterGone")


@kind
def exporter_restarts(site: Site) -> None:
    """What was seen before stands over it."""
    site.play(0.6, "kill")
    site.play(0.66, "start")


@kind
def exporter_blind(site: Site) -> None:
    site.play(after_others(site), "fault", "link-down", f"{site.host(1)}[1]")
    site.expect("SoftibExporterBlind")


@kind
def maintenance(site: Site) -> None:
    """A spine is taken down under a silence: nobody is called."""
    name = site.spine()
    site.play(0.1, "silence", f"node={name}")
    site.fault(0.2, "switch-down", name)


ALONE = frozenset({"exporter_killed", "exporter_hangs", "exporter_blind"})
"""No faults after these."""
ROUNDS = (
    (
        ("nothing",),
        ("healthy_traffic",),
        ("spine_down",),
        ("cable_down", "host_off"),
        ("flapping", "bit_errors"),
        ("narrow", "little_light"),
        ("weak_laser", "hot_module", "fell_once"),
        ("slow_host",),
        ("spine_down", "cable_down", "exporter_restarts"),
        ("exporter_killed",),
    ),
    (
        ("leaf_down",),
        ("leaf_down", "cable_down", "bit_errors"),
        ("switch_restarts",),
        ("fell_once", "slow"),
        ("no_flow_control",),
        ("exporter_blind",),
        ("exporter_hangs",),
        ("maintenance", "host_off"),
        ("healthy_traffic", "hot_module"),
        ("other_system_guid", "flapping"),
    ),
)
"""The first rounds have every kind; later ones draw two or three of them for each fabric."""
DRAWN = 4
"""Rounds that are drawn."""
SIZES = (("EDR", 4, 6), ("EDR", 4, 8), ("HDR", 4, 6), ("EDR", 5, 8), ("HDR", 4, 8), ("EDR", 6, 8))


def rounds() -> int:
    return len(ROUNDS) + DRAWN


def sites(number: int, fabrics: int) -> Iterator[Site]:
    """The fabrics of round ``number`` (from 1 on) with what is played on each."""
    rng = random.Random(number)
    for i in range(fabrics):
        if number <= len(ROUNDS):
            kinds = ROUNDS[number - 1][i % len(ROUNDS[number - 1])]
        else:
            kinds = tuple(rng.sample([k for k in KINDS if k not in ALONE], rng.choice((1, 2, 2, 3))))
            if rng.random() < 0.1:
                kinds = (*kinds[:1], rng.choice(sorted(ALONE)))
        generation, leaves, radix = SIZES[(i + number) % len(SIZES)]
        paced = bool({"healthy_traffic", "slow_host"} & set(kinds))
        site = Site(f"s{number}f{i}", 100 * number + i, generation, leaves, radix, paced)
        for name in kinds:
            KINDS[name](site)
        site.kinds = list(kinds)
        yield site
