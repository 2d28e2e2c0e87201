"""Change the generation of links. Only speeds change; cables, names and tables stay."""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.fabric.power_up import active_speed_codes, write_speeds
from softib.iba.constants import CapMask2
from softib.iba.rates import SPEED_BY_CODE, SPEED_BY_NAME, speed_named
from softib.iba.smp import PortInfo

__all__ = ["at_generation", "main_generation"]

STEPS = np.array([s.code for s in SPEED_BY_NAME.values() if s.name != "FDR10"])
"""Speed codes, ordered by generation."""
OF_SPEEDS = {
    "HDR": CapMask2.LINK_WIDTH_2X | CapMask2.LINK_SPEED_HDR,
    "NDR": CapMask2.LINK_SPEED_NDR,
    "XDR": CapMask2.EXTENDED_SPEEDS2 | CapMask2.LINK_SPEED_XDR,
}
"""CapabilityMask2 bits of an end port. A bit is set from the generation that is its key (IBA
14.2.5.6)."""


def main_generation(fabric: Fabric) -> str:
    """Return the most common generation of the links of adapters. Raises :class:`InputError` if no
    link has a known speed."""
    on_ca = ~fabric.is_switch[fabric.port_node] & fabric.linked
    codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)[on_ca]
    if not (codes > 0).any():
        raise InputError(f"{fabric.name or 'the fabric'}: no adapter has a link of known speed; name the generation")
    return SPEED_BY_CODE[int(np.bincount(codes[codes > 0]).argmax())].name


def at_generation(fabric: Fabric, name: str) -> Fabric:
    """Return a copy of the fabric in which the most common generation of adapters' links becomes
    ``name``. All other links change by the same number of generations, within SDR to GDR. Widths,
    cables and lengths stay. Raises :class:`UnknownName` if ``name`` is not a generation."""
    target, fabric_ = speed_named(name), fabric.copy()
    place = lambda code: np.searchsorted(STEPS, code, side="right") - 1
    shift = int(place(target.code)) - int(place(SPEED_BY_NAME[main_generation(fabric)].code))
    active = active_speed_codes(fabric_.port_info, fabric_.port_mlnx_speed).astype(np.int64)
    moved = lambda code: np.where(code > 0, STEPS[np.clip(place(code) + shift, 0, len(STEPS) - 1)], 0)
    supported = moved(supported_speed_codes(fabric_, np.arange(fabric_.sizes.ports)))
    linked = fabric_.linked & (active > 0)
    fabric_.port_mlnx_speed[:] = write_speeds(fabric_.port_info, supported, np.where(linked, moved(active), 0))
    stated = PortInfo.cap_mask2.get(fabric_.port_info).astype(np.int64)
    ends = stated > 0
    for generation, bits in OF_SPEEDS.items():
        stated = np.where(supported >= SPEED_BY_NAME[generation].code, stated | int(bits), stated & ~int(bits))
    PortInfo.cap_mask2.set(fabric_.port_info, np.where(ends, stated, 0))
    return fabric_
