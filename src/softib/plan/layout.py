"""The position of every device on a floor, and the resulting lengths of cables and loads of trays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from softib.plan.floor import Floor

__all__ = ["Elevation", "Kind", "Layout"]

UNIT_M = 0.04445
"""Height of a rack unit (EIA-310)."""
Kind = Literal["host", "storage", "switch", "management"]


@dataclass(frozen=True)
class Elevation:
    """A device in a rack: ``name``, its lowest unit ``u``, and its height ``units``."""

    rack: int
    u: int
    units: int
    name: str
    kind: Kind

    @property
    def is_switch(self) -> bool:
        """Return whether it is a switch, for InfiniBand or management."""
        return self.kind in ("switch", "management")


@dataclass(frozen=True)
class Layout:
    """Positions on a floor. For every node of a fabric: ``rack`` and ``u`` int64[nodes] (the unit of its ports), and
    ``device`` (name of the host or switch to which the node belongs).

    For all fabrics on the floor: ``elevations``, sorted by rack and unit; ``kw`` float64[racks]: power of each rack;
    ``managed`` int64[devices, 4]: rack and unit of each device, then of its management switch (no rows without such
    switches).
    """

    floor: Floor
    rack: np.ndarray
    u: np.ndarray
    device: tuple[str, ...]
    elevations: tuple[Elevation, ...]
    kw: np.ndarray
    managed: np.ndarray

    def length_m(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the metres of cable from each node ``a`` to node ``b`` along the trays, slack included (float64)."""
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
        """Return how many of the cables between racks ``a`` and ``b`` are in the tray above each rack, because they
        pass there or start there (int64[racks])."""
        f = self.floor
        rise = np.zeros((f.rows, f.racks + 1), np.int64)
        away = a != b
        (row_a, x_a), (row_b, x_b) = (np.divmod(rack[away], f.racks) for rack in (a, b))
        same = row_a == row_b
        # Between rows, a cable runs along the row of ``a`` to the column of ``b``, then along that column.
        np.add.at(rise, (row_a, np.minimum(x_a, x_b)), 1)
        np.add.at(rise, (row_a, np.maximum(x_a, x_b) + 1), -1)
        np.add.at(rise, (row_b[~same], x_b[~same]), 1)
        np.add.at(rise, (row_b[~same], x_b[~same] + 1), -1)
        return rise.cumsum(axis=1)[:, :-1].ravel()
