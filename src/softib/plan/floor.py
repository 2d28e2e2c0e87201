"""A floor plan: racks in rows, cable trays above them, and the rack unit of each device.

Rack ``A01`` is the first of row A. Trays run along every row and cross rows above each rack, or only at the ends of
the rows.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.input_files import read_text
from softib.plain_yaml import load_plain_yaml
from softib.plural import counted

__all__ = ["Elevation", "Floor", "Layout", "lay_out", "read_floor"]

UNIT_M = 0.04445
"""Height of a rack unit (EIA-310)."""
Where = Literal["start", "middle", "end"]
Kind = Literal["host", "storage", "switch", "management"]
MANAGEMENT_PORTS = 48
"""Ports of a switch for baseboard controllers and management ports (1 Gb/s Ethernet)."""


class Device(BaseModel):
    """Space and power of one kind of device in a rack."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    units: int = Field(ge=1, le=60)
    kw: float = Field(ge=0)


class Placed(BaseModel):
    """A device with a position in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    rack: str
    u: int = Field(ge=1, le=60)


class Floor(BaseModel):
    """``rows`` of ``racks`` racks, ``rack_units`` high and with ``kw`` of power (None: no limit).

    ``switches``: the position of the racks of switches in the floor's order; ``leaves``: whether leaves are placed
    with their hosts or with the other switches (auto: with the hosts if the hosts of a leaf fill at most two racks,
    so that copper reaches them). ``crossing``: position of trays between rows.
    ``adapters``: adapters of a host if names do not show it (fat trees). Lengths in
    metres: ``rack_pitch_m`` and ``row_pitch_m`` from one rack or row to the next, ``tray_m`` from
    the top of a rack to the tray, ``slack_m`` of each cable. ``gaps_m``: metres in addition to ``row_pitch_m`` after
    a row (from 1), for example to the next room. ``bend_radius_m``: the smallest bend of a cable: it must fit below
    the tray, and a cable inside a rack is at least a half circle. ``tray_cables``: cables that a tray
    holds; ``bundle_cables``: cables in one bundle.

    Defaults of a host: 8 U and 10.2 kW, the maximum in NVIDIA's data sheet of DGX H100; of a
    switch: 1 U and 1.7 kW, that of QM9700 with active cables. ``storage``: a host that is only on a fabric beside the
    first; 2 U and 1 kW are assumed. ``management``: an Ethernet switch of 48 ports for the management ports of all
    devices; none is placed without it. Pitches are those of common halls.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: int = Field(1, ge=1, le=200)
    racks: int = Field(ge=1, le=400)
    rack_units: int = Field(48, ge=4, le=60)
    kw: float | None = Field(None, gt=0)
    rack_pitch_m: float = Field(0.6, gt=0, le=5)
    row_pitch_m: float = Field(3.0, gt=0, le=50)
    tray_m: float = Field(0.5, ge=0, le=10)
    slack_m: float = Field(0.5, ge=0, le=20)
    gaps_m: dict[int, Annotated[float, Field(gt=0, le=2000)]] = Field(default_factory=dict)
    bend_radius_m: float | None = Field(None, gt=0, le=1)
    host: Device = Device(units=8, kw=10.2)
    storage: Device = Device(units=2, kw=1.0)
    switch: Device = Device(units=1, kw=1.7)
    management: Device | None = None
    switches: Where = "middle"
    leaves: Literal["auto", "with-hosts", "with-switches"] = "auto"
    crossing: Literal["everywhere", "ends"] = "everywhere"
    adapters: int | None = Field(None, ge=1, le=64)
    tray_cables: int | None = Field(None, ge=1)
    bundle_cables: int = Field(24, ge=1)
    placed: tuple[Placed, ...] = ()

    @model_validator(mode="after")
    def _possible(self) -> Floor:
        for row in self.gaps_m:
            if not 1 <= row < self.rows:
                raise ValueError(f"gaps_m: no row follows row {row}; rows are 1 to {self.rows}")
        if self.bend_radius_m is not None and self.bend_radius_m > self.tray_m:
            raise ValueError(
                f"bend_radius_m {self.bend_radius_m:g} does not fit below a tray at {self.tray_m:g} m; raise tray_m"
            )
        return self

    @property
    def row_at_m(self) -> np.ndarray:
        """Position of each row in metres (float64[rows])."""
        steps = [self.row_pitch_m + self.gaps_m.get(row, 0.0) for row in range(1, self.rows)]
        return np.concatenate([[0.0], np.cumsum(steps)])

    @property
    def n_racks(self) -> int:
        """Racks of the floor."""
        return self.rows * self.racks

    def rack_name(self, rack: int) -> str:
        """Return ``A01``: row and position in it."""
        row, place = divmod(rack, self.racks)
        letters = ""
        row += 1
        while row:
            row, digit = divmod(row - 1, 26)
            letters = chr(65 + digit) + letters
        return f"{letters}{place + 1:0{max(2, len(str(self.racks)))}d}"


@dataclass(frozen=True)
class Elevation:
    """A device in a rack: ``name``, ``u`` its lowest unit, ``units`` high."""

    rack: int
    u: int
    units: int
    name: str
    kind: Kind

    @property
    def is_switch(self) -> bool:
        """Return whether it switches, InfiniBand or management."""
        return self.kind in ("switch", "management")


@dataclass(frozen=True)
class Layout:
    """Position of every node of a fabric: ``rack`` and ``u`` int64[nodes] (the unit of its ports), ``device``: name of
    the host or switch that it is in.

    Of all fabrics on the floor: ``elevations`` by rack and unit; ``kw`` float64[racks]; ``managed`` int64[devices, 4]:
    rack and unit of a device, then of its management switch (no rows without such switches).
    """

    floor: Floor
    rack: np.ndarray
    u: np.ndarray
    device: tuple[str, ...]
    elevations: tuple[Elevation, ...]
    kw: np.ndarray
    managed: np.ndarray

    def length_m(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return metres of cable from node ``a`` to node ``b`` along the trays, slack included
        (float64)."""
        return self._path_m(self.rack[a], self.u[a], self.rack[b], self.u[b])

    def management_m(self) -> np.ndarray:
        """Return metres of cable from each device to its management switch (float64)."""
        return self._path_m(*self.managed.T)

    def _path_m(self, rack_a: np.ndarray, u_a: np.ndarray, rack_b: np.ndarray, u_b: np.ndarray) -> np.ndarray:
        f = self.floor
        up_a, up_b = ((f.rack_units - u) * UNIT_M + f.tray_m for u in (u_a, u_b))
        (row_a, x_a), (row_b, x_b) = (np.divmod(rack, f.racks) for rack in (rack_a, rack_b))
        along = np.abs(x_a - x_b)
        if f.crossing == "ends":
            around = np.minimum(x_a + x_b, 2 * (f.racks - 1) - x_a - x_b)
            along = np.where(row_a == row_b, along, around)
        over = up_a + up_b + along * f.rack_pitch_m + np.abs(f.row_at_m[row_a] - f.row_at_m[row_b])
        inside = np.maximum(np.abs(u_a - u_b) * UNIT_M, math.pi * (f.bend_radius_m or 0.0))
        return np.asarray(np.where(rack_a == rack_b, inside, over) + f.slack_m)

    def tray_loads(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return cables above each rack (int64[racks]) that join racks ``a`` and ``b``: those that pass along the row
        or start there."""
        f = self.floor
        rise = np.zeros((f.rows, f.racks + 1), np.int64)
        away = a != b
        (row_a, x_a), (row_b, x_b) = (np.divmod(rack[away], f.racks) for rack in (a, b))
        same = row_a == row_b
        # Across rows a cable runs along the row of a to the column of b, then down that column.
        np.add.at(rise, (row_a, np.minimum(x_a, x_b)), 1)
        np.add.at(rise, (row_a, np.maximum(x_a, x_b) + 1), -1)
        np.add.at(rise, (row_b[~same], x_b[~same]), 1)
        np.add.at(rise, (row_b[~same], x_b[~same] + 1), -1)
        return rise.cumsum(axis=1)[:, :-1].ravel()


def read_floor(source: str | os.PathLike[str] | Mapping[str, Any]) -> Floor:
    """Return the floor plan of a YAML file, or of a mapping with its keys. Raises
    :class:`InputError`, one line: what is wrong where."""
    if isinstance(source, Mapping):
        where, data = "floor", dict(source)
    else:
        where = os.fspath(source)
        data = load_plain_yaml(read_text(where, "floor plan"), where, "floor plan")
        if not isinstance(data, Mapping):
            raise InputError(f"{where}: a floor plan is a mapping with rows and racks")
    try:
        return Floor.model_validate(data)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        key = "".join(f"{p}: " for p in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: {key}{message[:1].lower()}{message[1:]}") from None


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
        """Return the lowest unit at which ``device`` fits into ``rack``, which it then occupies;
        None: it does not fit."""
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


@dataclass(frozen=True)
class _Devices:
    """Devices of all fabrics; their nodes are numbered through.

    ``names`` by node; ``switches``; ``hosts``: adapters by host, in the order of nodes; ``leaf_of``: the only leaf of
    each host, -1 if its adapters are on several; ``storage``: hosts without an adapter in the first fabric.
    """

    names: list[str]
    switches: list[int]
    hosts: dict[str, list[int]]
    leaf_of: dict[str, int]
    storage: frozenset[str]


def lay_out(fabrics: Sequence[Fabric], floor: Floor, shared: int | None = None) -> list[Layout]:
    """Place every host and switch of ``fabrics`` on one floor: hosts in their order from the first rack on,
    switches in separate racks (or leaves of the first fabric with their hosts).

    A host of the first fabric holds its adapters of the others: those of its name, or, in order, ``shared`` of each
    other fabric. Raises :class:`InputError` if neither is possible, the floor has too few racks, a rack has too little
    power for one device, positions overlap, or two fabrics have a switch of the same name.
    """
    devices = _devices(fabrics, floor, shared)
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
    """Return the number of ``device`` that a rack holds, at least 1."""
    by_units = floor.rack_units // device.units
    by_power = math.inf if floor.kw is None or not device.kw else math.floor(floor.kw / device.kw + 1e-9)
    return max(1, int(min(by_units, by_power)))


def _devices(fabrics: Sequence[Fabric], floor: Floor, shared: int | None) -> _Devices:
    names: list[str] = []
    switches: list[int] = []
    hosts: dict[str, list[int]] = {}
    leaf_of: dict[str, int] = {}
    for fabric in fabrics:
        start = len(names)
        names += fabric.node_names()
        both = {names[n] for n in switches} & {fabric.node_name(int(n)) for n in fabric.switch_node}
        if both:
            raise InputError(
                f"{min(both)} is a switch of two fabrics; give one of them names of its own, for example with "
                "prefix: storage- in its topology"
            )
        switches += (fabric.switch_node + start).tolist()
        adapters = (fabric.cas + start).tolist()
        if not start:
            for name, node in zip(_first_hosts(fabric, floor), adapters, strict=True):
                hosts.setdefault(name, []).append(node)
            leaf_of = _leaf_of(fabric, hosts)
            first = list(hosts)
            most = max(map(len, hosts.values()), default=0)
            whole = [name for name in first if len(hosts[name]) == most]  # not the hosts of UFM
            continue
        theirs = [names[node].split(" ")[0] for node in adapters]
        if shared is None and not hosts.keys() & set(theirs):
            raise InputError(
                f"no host of {fabric.name} has the name of a host of {fabrics[0].name}; use shared: the number of its "
                "adapters in each of them, 0 for none"
            )
        inside = (shared or 0) * len(whole)
        if inside > len(theirs):
            raise InputError(
                f"{fabric.name} has {counted(len(theirs), 'adapter')}, too few for {shared} in each of "
                f"{counted(len(whole), 'host')} of {fabrics[0].name}"
            )
        for i, node in enumerate(adapters):
            name = whole[i // shared] if shared and i < inside else theirs[i]
            hosts.setdefault(name, []).append(node)
    return _Devices(names, switches, hosts, leaf_of, frozenset(hosts.keys() - set(first)))


def _first_hosts(fabric: Fabric, floor: Floor) -> list[str]:
    """Return the host of each adapter of the first fabric."""
    if floor.adapters is not None:
        return [f"host {i // floor.adapters + 1}" for i in range(len(fabric.cas))]
    return [fabric.node_name(int(n)).split(" ")[0] for n in fabric.cas]


def _leaf_of(fabric: Fabric, hosts: Mapping[str, list[int]]) -> dict[str, int]:
    leaf_of: dict[str, int] = {}
    for name, nodes in hosts.items():
        peers = {
            int(fabric.port_node[fabric.port_peer[p]])
            for n in nodes
            for p in fabric.ports_of(n)
            if fabric.port_peer[p] >= 0
        }
        leaf_of[name] = peers.pop() if len(peers) == 1 else -1
    return leaf_of


def _stand_placed(devices: _Devices, floor: Floor, racks: _Racks, stand: Any) -> set[int]:
    """Return devices placed by the file; the nodes with a position."""
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
                f"placed: {entry.node} in {entry.rack}: with it the rack's devices need {kw:g} kW, and a rack has "
                f"{floor.kw:g}; place it in another rack"
            )
        racks.take(at, units, device.kw)
        stand(nodes, entry.node, device, at, entry.u, kind)
        fixed.update(nodes)
    return fixed


def _racks_of_hosts(floor: Floor, hosts: int, storage: int) -> int:
    return -(-hosts // _in_a_rack(floor, floor.host)) + -(-storage // _in_a_rack(floor, floor.storage))


def _network_racks(floor: Floor, switches: int, hosts: int, storage: int, too_small: str) -> list[int]:
    """Return the racks of switches: as many as needed, at the start, middle or end of those in
    use."""
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
