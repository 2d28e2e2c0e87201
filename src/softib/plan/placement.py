"""Placement on a floor: a rack and unit for every host and switch of the fabrics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.plan.floor import MANAGEMENT_PORTS, Device, Floor
from softib.plan.floor_devices import FloorDevices, devices_of
from softib.plan.layout import Elevation, Kind, Layout
from softib.plural import counted

__all__ = ["lay_out"]


@dataclass
class _Racks:
    """Free space of each rack, filled from the bottom (hosts) or the top (switches)."""

    floor: Floor
    kw: np.ndarray
    taken: list[set[int]]

    @classmethod
    def of(cls, floor: Floor) -> _Racks:
        return cls(floor, np.zeros(floor.n_racks), [set() for _ in range(floor.n_racks)])

    def put(self, rack: int, device: Device, from_top: bool) -> int | None:
        """Put ``device`` into ``rack``; return its lowest unit, or None if the rack has no room for it."""
        f = self.floor
        if f.kw is not None and self.kw[rack] + device.kw > f.kw + 1e-9:
            return None
        starts = range(1, f.rack_units - device.units + 2)
        for u in reversed(starts) if from_top else starts:
            units = range(u, u + device.units)
            if not self.taken[rack].intersection(units):
                self.take(rack, units, device.kw)
                return u
        return None

    def take(self, rack: int, units: range, kw: float) -> None:
        self.taken[rack].update(units)
        self.kw[rack] += kw


def lay_out(fabrics: Sequence[Fabric], floor: Floor, shared: int | None = None) -> list[Layout]:
    """Place every host and switch of ``fabrics`` on one floor: hosts in their order from the first rack on,
    switches in separate racks; leaves of the first fabric may be placed with their hosts.

    A host of the first fabric also holds adapters of the other fabrics: those that have the host's name, or, with
    ``shared``, that number of adapters of each other fabric, in order. Raises :class:`InputError` if neither is
    possible, the floor has too few racks, a rack has too little power for one device, positions overlap, or two fabrics
    have a switch of the same name.
    """
    devices = devices_of(fabrics, floor, shared)
    hosts, leaf_of = devices.hosts, devices.leaf_of
    racks = _Racks.of(floor)
    rack = np.full(len(devices.names), -1, np.int64)
    u = np.zeros(len(devices.names), np.int64)
    device_of = list(devices.names)
    elevations: list[Elevation] = []

    def stand(nodes: Sequence[int], name: str, device: Device, at: int, lowest: int, kind: Kind) -> None:
        rack[list(nodes)] = at
        u[list(nodes)] = lowest + (device.units - 1) // 2
        for node in nodes:
            device_of[node] = name
        elevations.append(Elevation(at, lowest, device.units, name, kind))

    ancillary = [floor.storage] if devices.storage else []
    ancillary += [floor.management] if floor.management is not None else []
    for device in (floor.host, floor.switch, *ancillary):
        if device.units > floor.rack_units or (floor.kw is not None and device.kw > floor.kw):
            raise InputError(
                f"a device of {device.units} U and {device.kw:g} kW does not fit into a rack of {floor.rack_units} U"
                + (f" and {floor.kw:g} kW" if floor.kw is not None else "")
            )
    fixed = _stand_placed(devices, floor, racks, stand)
    per_rack = _in_a_rack(floor, floor.host)
    with_hosts = floor.leaves == "with-hosts" or (
        floor.leaves == "auto" and bool(leaf_of) and _largest(leaf_of) <= 2 * per_rack
    )
    leaves = {leaf for leaf in leaf_of.values() if leaf >= 0} if with_hosts else set()
    apart = [n for n in devices.switches if n not in fixed and n not in leaves]
    too_small = _too_small(floor, len(hosts) - len(devices.storage), len(devices.storage), len(apart))
    network = _network_racks(floor, len(apart), len(hosts) - len(devices.storage), len(devices.storage), too_small)
    for node in apart:
        at = next((r for r in network if (got := racks.put(r, floor.switch, from_top=True)) is not None), None)
        if at is None:
            raise InputError(too_small)
        stand([node], devices.names[node], floor.switch, at, got, "switch")  # type: ignore[arg-type]
    room = [r for r in range(floor.n_racks) if r not in set(network)]
    waiting = set(leaves - fixed)
    at = 0
    for name, nodes in hosts.items():
        if set(nodes) <= fixed:
            continue
        leaf = leaf_of.get(name, -1)
        kind: Kind = "storage" if name in devices.storage else "host"
        device = floor.storage if name in devices.storage else floor.host
        while at < len(room):
            if leaf in waiting and (top := racks.put(room[at], floor.switch, from_top=True)) is not None:
                stand([leaf], devices.names[leaf], floor.switch, room[at], top, "switch")
                waiting.discard(leaf)
            lowest = racks.put(room[at], device, from_top=False)
            if lowest is not None:
                stand(nodes, name, device, room[at], lowest, kind)
                break
            at += 1
        else:
            raise InputError(too_small)
    for leaf in sorted(waiting):
        at_rack = next((r for r in room if (got := racks.put(r, floor.switch, from_top=True)) is not None), None)
        if at_rack is None:
            raise InputError(too_small)
        stand([leaf], devices.names[leaf], floor.switch, at_rack, got, "switch")  # type: ignore[arg-type]
    elevations.sort(key=lambda e: (e.rack, e.u))
    managed = _stand_management(floor, racks, elevations)
    starts = np.cumsum([0, *(f.sizes.nodes for f in fabrics)]).tolist()
    return [
        Layout(floor, rack[i:j], u[i:j], tuple(device_of[i:j]), tuple(elevations), racks.kw, managed)
        for i, j in itertools.pairwise(starts)
    ]


def _stand_management(floor: Floor, racks: _Racks, elevations: list[Elevation]) -> np.ndarray:
    """Place a management switch for each 48 devices, in the rack nearest to the middle one that has room; return
    :attr:`Layout.managed`."""
    managed: list[tuple[int, int, int, int]] = []
    if floor.management is None:
        return np.zeros((0, 4), np.int64)
    devices = list(elevations)
    for number, first in enumerate(range(0, len(devices), MANAGEMENT_PORTS), 1):
        group = devices[first : first + MANAGEMENT_PORTS]
        middle = group[len(group) // 2].rack
        by_distance = sorted(
            range(floor.n_racks), key=lambda r: (r // floor.racks != middle // floor.racks, abs(r - middle))
        )
        for rack in by_distance:
            u = racks.put(rack, floor.management, from_top=True)
            if u is not None:
                break
        else:
            raise InputError(
                f"no rack has room for management switch {number} ({floor.management.units} U, "
                f"{floor.management.kw:g} kW); add racks, or remove management from the floor plan"
            )
        elevations.append(Elevation(rack, u, floor.management.units, f"management-{number}", "management"))
        at = u + (floor.management.units - 1) // 2
        managed += [(e.rack, e.u + (e.units - 1) // 2, rack, at) for e in group]
    elevations.sort(key=lambda e: (e.rack, e.u))
    return np.array(managed, np.int64).reshape(-1, 4)


def _largest(leaf_of: Mapping[str, int]) -> int:
    counts: dict[int, int] = {}
    for leaf in leaf_of.values():
        counts[leaf] = counts.get(leaf, 0) + 1
    return max(counts.values(), default=0)


def _in_a_rack(floor: Floor, device: Device) -> int:
    """Return the number of devices of this kind for which a rack has room, at least 1."""
    by_units = floor.rack_units // device.units
    by_power = math.inf if floor.kw is None or not device.kw else math.floor(floor.kw / device.kw + 1e-9)
    return max(1, int(min(by_units, by_power)))


def _stand_placed(devices: FloorDevices, floor: Floor, racks: _Racks, stand: Any) -> set[int]:
    """Place the devices that have a position in the file; return the nodes with a position."""
    by_name = {floor.rack_name(r): r for r in range(floor.n_racks)}
    switches, hosts = {devices.names[n]: n for n in devices.switches}, devices.hosts
    fixed: set[int] = set()
    for entry in floor.placed:
        if entry.rack not in by_name:
            raise InputError(
                f"placed: {entry.node}: there is no rack {entry.rack}; racks are {floor.rack_name(0)} to "
                f"{floor.rack_name(floor.n_racks - 1)}"
            )
        is_switch = entry.node in switches
        if not is_switch and entry.node not in hosts:
            raise InputError(f"placed: the fabric has no device {entry.node}")
        kind: Kind = "switch" if is_switch else "storage" if entry.node in devices.storage else "host"
        device = {"switch": floor.switch, "storage": floor.storage, "host": floor.host}[kind]
        nodes = [switches[entry.node]] if is_switch else hosts[entry.node]
        at, units = by_name[entry.rack], range(entry.u, entry.u + device.units)
        if racks.taken[at].intersection(units) or units[-1] > floor.rack_units:
            raise InputError(
                f"placed: {entry.node} in {entry.rack} U{entry.u}: its {counted(device.units, 'unit')} "
                "must not overlap another device or leave the rack"
            )
        if floor.kw is not None and racks.kw[at] + device.kw > floor.kw + 1e-9:
            kw = racks.kw[at] + device.kw
            raise InputError(
                f"placed: {entry.node} in {entry.rack}: the devices of this rack would need {kw:g} kW, but a rack has "
                f"{floor.kw:g} kW; place it in another rack"
            )
        racks.take(at, units, device.kw)
        stand(nodes, entry.node, device, at, entry.u, kind)
        fixed.update(nodes)
    return fixed


def _racks_of_hosts(floor: Floor, hosts: int, storage: int) -> int:
    return -(-hosts // _in_a_rack(floor, floor.host)) + -(-storage // _in_a_rack(floor, floor.storage))


def _network_racks(floor: Floor, switches: int, hosts: int, storage: int, too_small: str) -> list[int]:
    """Return the racks in which switches are placed, at the start, middle or end of the racks in use."""
    if not switches:
        return []
    need = -(-switches // _in_a_rack(floor, floor.switch))
    if need + _racks_of_hosts(floor, hosts, 0) > floor.n_racks:
        raise InputError(too_small)
    others = min(_racks_of_hosts(floor, hosts, storage), floor.n_racks - need)
    first = {"start": 0, "middle": others // 2, "end": others}[floor.switches]
    return list(range(first, first + need))


def _too_small(floor: Floor, hosts: int, storage: int, switches: int) -> str:
    need = _racks_of_hosts(floor, hosts, storage) + (1 if switches else 0)  # switches may take more than one
    servers = f"{counted(storage, 'storage host')}, {_in_a_rack(floor, floor.storage)} in a rack, " if storage else ""
    return (
        f"{counted(hosts, 'host')}, {_in_a_rack(floor, floor.host)} in a rack, {servers}and "
        f"{counted(switches, 'switch')} need at least {counted(max(need, floor.n_racks + 1), 'rack')}; the floor plan "
        f"has {floor.n_racks}"
    )
