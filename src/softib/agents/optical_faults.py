"""Faults of optical modules and fibres: loss of light, ageing lasers, hot modules.

A module's measurements are in the register image that the firmware of its port returns (column
``module_info``). Too little light causes bit errors in the direction concerned
(:func:`softib.fabric.optical_modules.bit_errors`).
"""

from __future__ import annotations

import math

import numpy as np

from softib.agents.kernels.faults.fec import PAM4
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.optical_modules import TX_DBM, bit_errors, dbm, fibre_loss_db, microwatts
from softib.fabric.power_up import active_speed_codes
from softib.iba.vendor.mlnx import ModuleInfo

__all__ = ["MOST_DB", "OpticalFaults"]

MOST_DB = 40.0
COLDEST_C, HOTTEST_C = -100.0, 120.0


class OpticalFaults:
    """The faults of the modules in ``fabric``. ``lost_db``: loss through dirt or a bend, by
    receiving port. ``faded_db``: reduction of the laser's power, by sending port."""

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.lost_db: dict[int, float] = {}
        self.faded_db: dict[int, float] = {}
        self._cool: dict[int, int] = {}

    def lose(self, port: int, db: float) -> None:
        """Attenuate the light before it reaches ``port`` by ``db``; 0 removes the fault. Raises
        :class:`InputError` for a port without an optical module."""
        self._check(port, db)
        self._set(self.lost_db, port, db)
        self._measure(port)

    def fade(self, port: int, db: float) -> None:
        """Reduce the output of the laser of ``port`` by ``db``. The laser's driver increases the
        current by the same factor (at most twofold). 0 removes the fault."""
        peer = self._check(port, db)
        self._set(self.faded_db, port, db)
        image = self.fabric.module_info[port]
        ModuleInfo.tx_power.set(image, self._lanes(microwatts(TX_DBM - db)))
        ModuleInfo.tx_bias.set(image, self._lanes(6.5e3 / 2 * min(2.0, 10 ** (db / 10))))
        self._measure(peer)

    def heat(self, port: int, degrees_c: float | None) -> None:
        """Set the temperature of the module in ``port`` (None: its original one)."""
        self._check(port, 0.0)
        image = self.fabric.module_info[port]
        now = int(ModuleInfo.temperature.get(image))
        if degrees_c is None:
            ModuleInfo.temperature.set(image, self._cool.pop(port, now))
            return
        if not COLDEST_C <= degrees_c <= HOTTEST_C:
            raise InputError(
                f"a module temperature of {degrees_c:g} degrees Celsius is out of range; use {COLDEST_C:g} to "
                f"{HOTTEST_C:g}"
            )
        self._cool.setdefault(port, now)
        ModuleInfo.temperature.set(image, round(degrees_c * 256) & 0xFFFF)

    def ber(self, port: int) -> float:
        """Return the bit error ratio that lack of light causes in the data that ``port``
        receives."""
        peer = int(self.fabric.port_peer[port])
        if not (port in self.lost_db or peer in self.faded_db):
            return 0.0
        image = self.fabric.module_info[port]
        code = int(active_speed_codes(self.fabric.port_info[[port]], self.fabric.port_mlnx_speed[[port]])[0])
        low = float(dbm(ModuleInfo.rx_power_low_th.get(image)))
        return bit_errors(self._arrives(port), low, bool(PAM4[code]))

    def _arrives(self, port: int) -> float:
        peer = int(self.fabric.port_peer[port])
        fibre = float(fibre_loss_db(self.fabric, self.fabric.port_cable[[port]])[0])
        return TX_DBM - self.faded_db.get(peer, 0.0) - fibre - self.lost_db.get(port, 0.0)

    def _measure(self, port: int) -> None:
        ModuleInfo.rx_power.set(self.fabric.module_info[port], self._lanes(microwatts(self._arrives(port))))

    def _check(self, port: int, db: float) -> int:
        peer = int(self.fabric.port_peer[port])
        if peer < 0 or not self.fabric.module_info[port].any():
            raise InputError(
                f"{self.fabric.port_name(port)} has no optical module; use a port whose cable has medium AOC, MMF or "
                f"SMF"
            )
        if not (math.isfinite(db) and 0 <= db <= MOST_DB):
            raise InputError(f"an optical loss of {db:g} dB is out of range; use 0 to {MOST_DB:g}")
        return peer

    @staticmethod
    def _set(of: dict[int, float], port: int, db: float) -> None:
        if db:
            of[port] = db
        else:
            of.pop(port, None)

    @staticmethod
    def _lanes(value: float) -> np.ndarray:
        return np.full(ModuleInfo.rx_power.count, round(value), np.uint64)
