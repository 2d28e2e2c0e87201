"""Lengths and media of cables: as the fabric file states them, or chosen. The reach of each medium
is its reach at NDR in :mod:`softib.iba.catalogue`. Copper reaches farther at slower generations, so
a medium that is chosen for NDR works for them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softib.errors import InputError, UnknownName
from softib.fabric.columns import CableMedium
from softib.fabric.model import Fabric
from softib.iba.catalogue import CABLES

__all__ = ["REACH_M", "apply_cables", "medium_for_length", "medium_named"]

REACH_M: tuple[tuple[float, int], ...] = tuple(
    (kind.reach_m, CableMedium.NAMES.index(kind.medium)) for kind in CABLES if kind.generation == "NDR"
)
"""(longest cable in metres, medium) of each medium, cheapest first."""


def medium_named(name: str) -> int:
    """Return the :class:`CableMedium` called ``name``, in upper or lower case. Raises
    :class:`UnknownName`."""
    names = [n.lower() for n in CableMedium.NAMES]
    if name.lower() not in names:
        raise UnknownName("cable medium", name, ("auto", *CableMedium.NAMES))
    return names.index(name.lower())


def medium_for_length(length_m: Any) -> np.ndarray:
    """Return the cheapest medium that reaches ``length_m`` metres, or UNKNOWN if the length is
    unknown (NaN). Raises :class:`InputError` if no medium reaches that far.
    """
    lengths = np.asarray(length_m, np.float64)
    reach = np.array([r for r, _ in REACH_M])
    media = np.array([m for _, m in REACH_M] + [CableMedium.UNKNOWN])
    if (lengths > reach[-1]).any():
        raise InputError(f"a cable of {np.nanmax(lengths):g} m is too long; single-mode fibre reaches {reach[-1]:g} m")
    return media[np.where(np.isnan(lengths), len(reach), np.searchsorted(reach, lengths))].astype(np.uint8)


def apply_cables(
    fabric: Fabric, medium: str | None = "auto", length_m: float | Mapping[str, float] | None = None
) -> None:
    """Set the length and the medium of every cable that has none.

    ``length_m`` is one number for all cables, or a number for each tier of the generator
    (``{host-leaf: 2, leaf-spine: 20}``). ``medium`` is a name of :class:`CableMedium`, or ``auto``
    for the cheapest medium that reaches. Raises :class:`UnknownName` and :class:`InputError`.
    """
    if isinstance(length_m, Mapping):
        wanted = _by_tier(fabric, length_m)
    else:
        wanted = np.full(fabric.sizes.cables, np.nan if length_m is None else length_m)
    if (wanted <= 0).any():
        raise InputError(f"length_m: {np.nanmin(wanted):g} is not a cable length; use metres above 0")
    open_length = np.isnan(fabric.cable_length_m)
    fabric.cable_length_m[open_length] = wanted[open_length]
    if (~np.isnan(wanted)).any():
        fabric.source.records |= {"lengths"}
    open_medium = fabric.cable_medium == CableMedium.UNKNOWN
    if medium is None or medium.lower() == "auto":
        fabric.cable_medium[open_medium] = medium_for_length(fabric.cable_length_m)[open_medium]
    else:
        fabric.cable_medium[open_medium] = medium_named(medium)


def _by_tier(fabric: Fabric, lengths: Mapping[str, float]) -> np.ndarray:
    tiers = fabric.source.generator.get("tiers", ())
    if not tiers:
        raise InputError("length_m per tier needs a generated topology; use one number for an imported fabric")
    table = np.full(len(tiers) + 1, np.nan)
    for name, length in lengths.items():
        if name not in tiers:
            raise UnknownName("tier of this fabric", name, tiers)
        table[tiers.index(name)] = length
    return table[fabric.source.generator["cable_tier"]]
