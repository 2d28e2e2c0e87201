"""Every kind of fault in one table: its stable name, its keys in a fabric file, and how to draw one at random.

A fabric file lists faults as ``{kind: slow-link, cable: "leaf-3[40]", speed: HDR}``; ``kind`` may be left away where
the keys fit one kind only (``{cable: "leaf-3[40]", ber: 1.0e-9}``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import InputError, UnknownName
from softib.fabric import faults
from softib.fabric.fault_places import Planted
from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.iba.constants import NodeType
from softib.iba.rates import SPEED_BY_CODE

__all__ = ["FAULTS", "FaultKind", "plant", "random_fault", "random_swap"]


@dataclass(frozen=True)
class FaultKind:
    """A kind: the function of :mod:`softib.fabric.faults`, its keys → doc (``needed`` ones first), and its draw."""

    name: str
    plant: Callable[..., Planted]
    needed: dict[str, str]
    draw: Callable[[Fabric, np.random.Generator], dict[str, Any]]
    optional: dict[str, str]
    doc: str

    @property
    def keys(self) -> list[str]:
        """Keys in a fabric file beside ``kind``."""
        return [*self.needed, *self.optional]


def plant(fabric: Fabric, entry: Mapping[str, Any]) -> Planted:
    """Plant the fault that ``entry`` of a fabric file describes. Raises :class:`InputError` or :class:`UnknownName`."""
    given = {str(k): v for k, v in entry.items() if k != "kind"}
    kind = _kind_of(entry.get("kind"), list(given))
    for key in given:
        if key not in kind.keys:
            raise UnknownName(f"key of fault {kind.name}", key, kind.keys)
    for key in kind.needed:
        if key not in given:
            raise InputError(f"fault {kind.name} needs {key}: {kind.needed[key]}")
    return kind.plant(fabric, **_arguments(kind, given))


def random_fault(fabric: Fabric, kind: str, rng: np.random.Generator) -> Planted:
    """Plant one fault of ``kind`` at a place that ``rng`` draws. Raises :class:`InputError` where no place fits."""
    if kind not in FAULTS:
        raise UnknownName("fault", kind, FAULTS)
    found = FAULTS[kind]
    return found.plant(fabric, **_arguments(found, found.draw(fabric, rng)))


def random_swap(fabric: Fabric, rng: np.random.Generator, tier: str | None = None, same_nodes: bool = False) -> Planted:
    """Swap the plugs of two cables of one tier (of a generated fabric; else of any two cables between equal node types).

    The four ends are on four different nodes, so that who is linked to whom changes. With ``same_nodes`` the two cables
    are parallel ones between the same two nodes: only port numbers change, the graph of nodes does not.
    """
    a, b = _two_cables(fabric, rng, tier, same_nodes)
    return faults.swap_cables(fabric, a, b)


def _kind_of(name: Any, keys: list[str]) -> FaultKind:
    if name is not None:
        if name not in FAULTS:
            raise UnknownName("fault", str(name), FAULTS)
        return FAULTS[name]
    fits = [k for k in FAULTS.values() if set(k.needed) <= set(keys) <= set(k.keys)]
    telling = [k for k in fits if len(k.keys) > 1 and set(keys) - {"cable", "port", "node", "of"}]
    if len(telling) != 1:
        known = f"one of {', '.join(k.name for k in fits)}" if fits else f"known: {', '.join(FAULTS)}"
        raise InputError(f"fault with {', '.join(keys) or 'no keys'} needs a kind; {known}")
    return telling[0]


_NUMBERS = {"ber": float, "length_m": float, "lanes": int}


def _arguments(kind: FaultKind, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the planter: numbers as numbers, ``ports: [a, b]`` as a and b, places as text or rows."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key in _NUMBERS:
            try:
                out[key] = _NUMBERS[key](value)
            except (TypeError, ValueError, OverflowError):
                raise InputError(f"fault {kind.name}: {key}: {value!r} is not a number") from None
        elif key == "ports":
            most = 1 if kind.name == "self-loop" and not isinstance(value, list) else 2
            ports = value if isinstance(value, list) else [value]
            least = 1 if kind.name == "self-loop" else 2
            if not least <= len(ports) <= most or not all(isinstance(p, str | int) for p in ports):
                raise InputError(
                    f'fault {kind.name}: ports: {value!r}; write two, such as ["leaf-1[40]", "leaf-2[40]"]'
                )
            out.update(zip(("a", "b"), ports, strict=False))
        elif key == "rails":
            if not isinstance(value, list | tuple) or not all(isinstance(r, int) for r in value):
                raise InputError(f"fault {kind.name}: rails: {value!r}; write two numbers, such as [0, 1]")
            out[key] = tuple(value)
        elif isinstance(value, str | int) and not isinstance(value, bool):
            out[key] = value
        else:
            raise InputError(
                f"fault {kind.name}: {key}: {value!r} is not a name; it is {({**kind.needed, **kind.optional})[key]}"
            )
    return out


# -- draws --


def _pick(rng: np.random.Generator, rows: np.ndarray, what: str) -> int:
    if not len(rows):
        raise InputError(f"this fabric has no {what} to plant the fault at")
    return int(rows[rng.integers(len(rows))])


def _plain_cables(fabric: Fabric) -> np.ndarray:
    """Cables with two known ends on different nodes."""
    a, b = fabric.cable_port[:, 0], fabric.cable_port[:, 1]
    return np.flatnonzero((a >= 0) & (b >= 0) & (fabric.port_node[a] != fabric.port_node[b]))


def _cable(fabric: Fabric, rng: np.random.Generator) -> int:
    return int(fabric.cable_port[_pick(rng, _plain_cables(fabric), "cable with two ends"), rng.integers(2)])


def _tier_of_cables(fabric: Fabric, cables: np.ndarray) -> np.ndarray:
    told = fabric.source.generator.get("cable_tier")
    if told is not None:
        return np.asarray(told)[cables]
    types = fabric.node_type[fabric.port_node[fabric.cable_port[cables]]].astype(np.int64)
    return types[:, 0] * 4 + types[:, 1]


def _two_cables(fabric: Fabric, rng: np.random.Generator, tier: str | None, same_nodes: bool) -> tuple[int, int]:
    """Ports (same side) of two cables that :func:`random_swap` may exchange."""
    cables = _plain_cables(fabric)
    tiers = _tier_of_cables(fabric, cables)
    near, far = (fabric.port_node[fabric.cable_port[cables, side]] for side in (0, 1))
    usable = np.arange(len(cables))
    if tier is not None:
        known = fabric.source.generator.get("tiers", ())
        if tier not in known:
            raise UnknownName("tier of this fabric", tier, known)
        usable = np.flatnonzero(tiers == known.index(tier))
    for first in rng.permutation(usable)[:64].tolist():
        if same_nodes:
            fits = (near == near[first]) & (far == far[first])
        else:
            others = np.array([near[first], far[first]])
            fits = (tiers == tiers[first]) & ~np.isin(near, others) & ~np.isin(far, others)
        fits[first] = False
        if fits.any():
            second = _pick(rng, np.flatnonzero(fits), "second cable")
            side = int(rng.integers(2))
            return int(fabric.cable_port[cables[first], side]), int(fabric.cable_port[cables[second], side])
    raise InputError(f"no two cables{f' of {tier}' if tier else ''} of this fabric can be swapped that way")


def _draw_cable(**more: Any) -> Callable[[Fabric, np.random.Generator], dict[str, Any]]:
    return lambda fabric, rng: {"cable": _cable(fabric, rng), **more}


def _draw_swap(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    return {"ports": list(_two_cables(fabric, rng, None, False))}


def _draw_slow(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    port = _cable(fabric, rng)
    best = int(supported_speed_codes(fabric, np.array([port, fabric.port_peer[port]])).min())
    if best > 1 and rng.integers(2):
        return {"cable": port, "speed": SPEED_BY_CODE[int(rng.integers(1, best))].name}
    return {"cable": port, "lanes": 1}


def _draw_move(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    port = _cable(fabric, rng)
    on_switch = fabric.is_switch[fabric.port_node] & (fabric.port_num > 0)
    return {"port": port, "to": _pick(rng, np.flatnonzero(on_switch & (fabric.port_cable < 0)), "free switch port")}


def _draw_hca(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    ca = (fabric.node_type == NodeType.CA)[fabric.port_node]
    return {"port": _pick(rng, np.flatnonzero(ca & fabric.linked), "linked adapter")}


def _draw_rails(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    truth = fabric.source.generator
    if truth.get("kind") != "rail-optimized":
        raise InputError("crossed rails need a rail-optimized fabric")
    node = int(rng.integers(truth["params"]["nodes"]))
    rows = np.flatnonzero(truth["node_host"] == node)
    pair = rng.permutation(truth["params"]["rails"])[:2].tolist()
    return {"node": fabric.node_name(int(rows[0])).split(" ")[0], "rails": pair}


def _draw_switch(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    linked = np.bincount(fabric.port_node[fabric.linked], minlength=fabric.sizes.nodes) > 0
    return {"switch": _pick(rng, np.flatnonzero(fabric.is_switch & linked), "linked switch")}


def _draw_loop(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    free = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_num > 0) & (fabric.port_cable < 0))
    a = _pick(rng, free, "free switch port")
    return {"ports": [a, _pick(rng, free[fabric.port_node[free] == fabric.port_node[a]], "free switch port")]}


def _draw_twins(key: str) -> Callable[[Fabric, np.random.Generator], dict[str, Any]]:
    def draw(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
        rows = fabric.end_ports() if key == "port" else np.arange(fabric.sizes.nodes)
        if len(rows) < 2:
            raise InputError("this fabric is too small to hold a duplicate")
        a, b = rng.permutation(rows)[:2].tolist()
        return {key: a, "of": b}

    return draw


def _draw_end(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    return {"port": _pick(rng, fabric.end_ports(), "end port")}


def _draw_dangling(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    return {"port": _cable(fabric, rng)}


_CABLE = {"cable": "a port that the cable is in, such as leaf-3[40]"}
_PORT = {"port": "a port, such as host-0001[1]"}
_OF = {"of": "whose identity it takes"}
_NODE = {"node": "a node by name or GUID"}

FAULTS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        FaultKind("swap-cables", faults.swap_cables, {"ports": "two ports whose plugs are exchanged"}, _draw_swap, {},
                  "two cables are exchanged at one end"),
        FaultKind("crossed-rails", faults.cross_rails, {"node": "host, such as node-005", "rails": "two rails, such as [0, 1]"},
                  _draw_rails, {}, "two adapters of a host have each other's cable"),
        FaultKind("move-cable", faults.move_cable, {**_PORT, "to": "a free port"}, _draw_move, {},
                  "a cable is in the wrong port"),
        FaultKind("remove-cable", faults.remove_cable, _CABLE, _draw_cable(), {}, "a cable is missing"),
        FaultKind("unlink-hca", faults.unlink_hca, _PORT, _draw_hca, {}, "an adapter has no cable"),
        FaultKind("dead-switch", faults.dead_switch, {"switch": "a switch"}, _draw_switch, {}, "a switch without any link"),
        FaultKind("self-loop", faults.self_loop, {"ports": "two free ports of a switch, or one"}, _draw_loop, {},
                  "a cable leads back to its own switch"),
        FaultKind("slow-link", faults.slow_link, _CABLE, _draw_slow, {"speed": "generation that is active", "lanes": "active width"},
                  "a link runs below what its ends can do"),
        FaultKind("ber", faults.set_ber, {**_CABLE, "ber": "raw bit error ratio"}, _draw_cable(ber=1e-9), {}, "a cable makes bit errors"),
        FaultKind("length", faults.set_length, {**_CABLE, "length_m": "metres"}, _draw_cable(length_m=77.0), {},
                  "a cable of another length"),
        FaultKind("inactive-link", faults.inactive_link, _CABLE, _draw_cable(), {"state": "DOWN, INIT (default) or ARMED"},
                  "a link does not come up"),
        FaultKind("duplicate-guid", faults.duplicate_guid, {**_NODE, **_OF}, _draw_twins("node"), {}, "two nodes have one GUID"),
        FaultKind("duplicate-description", faults.duplicate_description, {**_NODE, **_OF}, _draw_twins("node"), {},
                  "two nodes have one description"),
        FaultKind("duplicate-lid", faults.duplicate_lid, {**_PORT, **_OF}, _draw_twins("port"), {}, "two end ports have one LID"),
        FaultKind("lid-0", faults.zero_lid, _PORT, _draw_end, {}, "an end port has no LID"),
        FaultKind("one-sided", faults.one_sided, _CABLE, _draw_cable(), {}, "only one end lists the cable"),
        FaultKind("dangling", faults.dangle, _PORT, _draw_dangling, {}, "a record names a peer that is not there"),
    )
}  # fmt: skip
"""Kind by stable name."""


def markdown() -> str:
    """The reference of all kinds of fault, as ``docs/topologies.md`` has it."""
    rows = ["| kind | keys | what goes wrong |", "|---|---|---|"]
    for kind in FAULTS.values():
        keys = [f"`{k}`: {doc}" for k, doc in kind.needed.items()] + [
            f"`{k}` (optional): {doc}" for k, doc in kind.optional.items()
        ]
        rows.append(f"| `{kind.name}` | {'; '.join(keys)} | {kind.doc} |")
    return "\n".join(rows) + "\n"
