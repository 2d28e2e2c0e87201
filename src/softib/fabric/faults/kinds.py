"""Table of all kinds of fault. Each has a stable name, and its keys in a fabric file.

A fabric file lists faults as ``{kind: slow-link, cable: "leaf-3[40]", speed: HDR}``. ``kind`` may
be omitted if only one kind has these keys (``{cable: "leaf-3[40]", ber: 1.0e-9}``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softib.errors import InputError, UnknownName
from softib.fabric.faults import inject
from softib.fabric.faults.targets import Planted
from softib.fabric.model import Fabric

__all__ = ["FAULTS", "FaultKind", "plant"]


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault: its function in :mod:`softib.fabric.faults.inject`, and its keys with their
    descriptions (required keys first, in ``needed``)."""

    name: str
    plant: Callable[..., Planted]
    needed: dict[str, str]
    optional: dict[str, str]
    doc: str

    @property
    def keys(self) -> list[str]:
        """Keys in a fabric file in addition to ``kind``."""
        return [*self.needed, *self.optional]


def plant(fabric: Fabric, entry: Mapping[str, Any]) -> Planted:
    """Plant the fault that ``entry`` of a fabric file describes. Raises :class:`InputError` or
    :class:`UnknownName`."""
    given = {str(k): v for k, v in entry.items() if k != "kind"}
    kind = _kind_of(entry.get("kind"), list(given))
    for key in given:
        if key not in kind.keys:
            raise UnknownName(f"key of fault {kind.name}", key, kind.keys)
    for key in kind.needed:
        if key not in given:
            raise InputError(f"fault {kind.name} needs {key}: {kind.needed[key]}")
    return kind.plant(fabric, **_arguments(kind, given))


def _kind_of(name: Any, keys: list[str]) -> FaultKind:
    if name is not None:
        if name not in FAULTS:
            raise UnknownName("fault", str(name), FAULTS)
        return FAULTS[name]
    fits = [k for k in FAULTS.values() if set(k.needed) <= set(keys) <= set(k.keys)]
    telling = [k for k in fits if len(k.keys) > 1 and set(keys) - {"cable", "port", "node", "of"}]
    if len(telling) != 1:
        hint = f"one of {', '.join(k.name for k in fits)}" if fits else f"known: {', '.join(FAULTS)}"
        raise InputError(f"fault with {', '.join(keys) or 'no keys'} needs a kind; {hint}")
    return telling[0]


def _arguments(kind: FaultKind, given: dict[str, Any]) -> dict[str, Any]:
    """Convert the keys of a file to arguments of the planting function, and return them. Raises
    :class:`InputError` for a value of the wrong type."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        try:
            out.update(_PARSERS.get(key, _name)(kind, key, value))
        except (TypeError, ValueError, OverflowError):
            is_what = {**kind.needed, **kind.optional}[key]
            raise InputError(f"fault {kind.name}: {key}: {value!r} is not valid; it must be {is_what}") from None
    return out


def _name(kind: FaultKind, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, str):
        raise TypeError
    return {key: value}


def _real(kind: FaultKind, key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        raise TypeError
    return {key: float(value)}


def _whole(kind: FaultKind, key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return {key: value}


def _ports(kind: FaultKind, key: str, value: Any) -> dict[str, Any]:
    ports = [value] if isinstance(value, str) else value
    least = 1 if kind.name == "self-loop" else 2
    if not isinstance(ports, list) or not least <= len(ports) <= 2 or not all(isinstance(p, str) for p in ports):
        raise TypeError
    return dict(zip(("a", "b"), ports, strict=False))


def _rails(kind: FaultKind, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, list) or not all(isinstance(r, int) for r in value):
        raise TypeError
    return {key: tuple(value)}


_PARSERS = {"ports": _ports, "rails": _rails, "ber": _real, "length_m": _real, "lanes": _whole}


_CABLE = {"cable": "a port that the cable is in, for example leaf-3[40]"}
_PORT = {"port": "a port, for example host-0001[1]"}
_OF = {"of": "the node or port whose identity is copied"}
_NODE = {"node": "a node by name or GUID"}

FAULTS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        FaultKind(
            "swap-cables",
            inject.swap_cables,
            {"ports": 'two ports whose plugs are exchanged, for example ["leaf-1[40]", "leaf-2[40]"]'},
            {},
            "two cables are exchanged at one end",
        ),
        FaultKind(
            "crossed-rails",
            inject.cross_rails,
            {"node": "host, for example node-005", "rails": "two rails, for example [0, 1]"},
            {},
            "the cables of two adapters of a host are exchanged",
        ),
        FaultKind(
            "move-cable",
            inject.move_cable,
            {**_PORT, "to": "a free port"},
            {},
            "a cable is in the wrong port",
        ),
        FaultKind("remove-cable", inject.remove_cable, _CABLE, {}, "a cable is missing"),
        FaultKind("unlink-hca", inject.unlink_hca, _PORT, {}, "an adapter has no cable"),
        FaultKind("dead-switch", inject.dead_switch, {"switch": "a switch"}, {}, "a switch without any link"),
        FaultKind(
            "self-loop",
            inject.self_loop,
            {"ports": "two free ports of a switch, or one"},
            {},
            "a cable leads back to its own switch",
        ),
        FaultKind(
            "slow-link",
            inject.slow_link,
            _CABLE,
            {"speed": "active generation", "lanes": "active width"},
            "a link runs below what its ends support",
        ),
        FaultKind(
            "ber",
            inject.set_ber,
            {**_CABLE, "ber": "raw bit error ratio"},
            {},
            "a cable makes bit errors",
        ),
        FaultKind(
            "length",
            inject.set_length,
            {**_CABLE, "length_m": "metres"},
            {},
            "a cable of another length",
        ),
        FaultKind(
            "inactive-link",
            inject.inactive_link,
            _CABLE,
            {"state": "DOWN, INIT (default) or ARMED"},
            "a link does not come up",
        ),
        FaultKind(
            "duplicate-guid",
            inject.duplicate_guid,
            {**_NODE, **_OF},
            {},
            "two nodes have one GUID",
        ),
        FaultKind(
            "duplicate-description",
            inject.duplicate_description,
            {**_NODE, **_OF},
            {},
            "two nodes have one description",
        ),
        FaultKind(
            "duplicate-lid",
            inject.duplicate_lid,
            {**_PORT, **_OF},
            {},
            "two end ports have one LID",
        ),
        FaultKind("lid-0", inject.zero_lid, _PORT, {}, "an end port has no LID"),
        FaultKind("one-sided", inject.one_sided, _CABLE, {}, "only one end lists the cable"),
        FaultKind("dangling", inject.dangle, _PORT, {}, "a record names a peer that does not exist"),
    )
}
"""All kinds of fault by stable name."""
