"""A floor plan: racks in rows, cable trays above them, and the space and power of a device.

Rack ``A01`` is the first of row A. Trays run along every row. Between rows they run above each rack, or only at the
ends of the rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from softib.errors import InputError
from softib.input_files import read_text
from softib.plain_yaml import load_plain_yaml
from softib.plan.checked import checked

__all__ = ["MANAGEMENT_PORTS", "Device", "Floor", "read_floor"]

Where = Literal["start", "middle", "end"]
MANAGEMENT_PORTS = 48
"""Number of ports of a switch for baseboard controllers and management ports (1 Gb/s Ethernet)."""


class Device(BaseModel):
    """Space and power of one kind of device in a rack."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    units: int = Field(ge=1, le=60)
    kw: float = Field(ge=0)


class Placed(BaseModel):
    """A device whose position is stated in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    rack: str
    u: int = Field(ge=1, le=60)


class Floor(BaseModel):
    """``rows`` of ``racks`` racks, ``rack_units`` high and with ``kw`` of power (None: no limit).

    ``switches``: position of the switches' racks among the racks in use; ``leaves``: whether leaves are placed with
    their hosts or with the other switches (auto: with the hosts if the hosts of a leaf fill at most two racks, so that
    copper reaches them). ``crossing``: position of trays between rows. ``adapters``: number of adapters of a host, if
    the names of adapters do not show which belong to one host (fat trees). Lengths in metres: ``rack_pitch_m`` and
    ``row_pitch_m`` from one rack or row to the next, ``tray_m`` from the top of a rack to the tray, ``slack_m`` of each
    cable. ``gaps_m``: metres in addition to ``row_pitch_m`` after a row (from 1), for example to the next room.
    ``bend_radius_m``: smallest radius in which a cable may be bent. There must be room for it below the tray, and a
    cable inside a rack has at least the length of such a half circle. ``tray_cables``: number of cables for which a
    tray has room; ``bundle_cables``: number of cables in a bundle.

    Defaults of a host: 8 U and 10.2 kW, the maximum in NVIDIA's data sheet of DGX H100; of a
    switch: 1 U and 1.7 kW, that of QM9700 with active cables. ``storage``: a host that has adapters only on fabrics
    other than the first; 2 U and 1 kW are assumed. ``management``: an Ethernet switch of 48 ports for the management
    ports of all devices; none is placed without it. The default pitches are those of common halls.
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
        """Number of racks on the floor."""
        return self.rows * self.racks

    def rack_name(self, rack: int) -> str:
        """Return the name of a rack, its row and position in the row: ``A01``."""
        row, place = divmod(rack, self.racks)
        letters = ""
        row += 1
        while row:
            row, digit = divmod(row - 1, 26)
            letters = chr(65 + digit) + letters
        return f"{letters}{place + 1:0{max(2, len(str(self.racks)))}d}"


def read_floor(source: str | os.PathLike[str] | Mapping[str, Any]) -> Floor:
    """Return the floor plan in a YAML file, or in a mapping with the same keys. Raises :class:`InputError`, one line
    with location and error."""
    if isinstance(source, Mapping):
        where, data = "floor", dict(source)
    else:
        where = os.fspath(source)
        data = load_plain_yaml(read_text(where, "floor plan"), where, "floor plan")
        if not isinstance(data, Mapping):
            raise InputError(f"{where}: a floor plan is a mapping with rows and racks")
    return checked(Floor, data, where, "a floor plan")
