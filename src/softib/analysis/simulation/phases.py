"""An all-to-all with barriers: each pair of hosts on the SL that the manager states, on the fabric
as it is or scaled by a what-if."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.scenario.managed_messages import stated_sls
from softib.sim.fluid_phases import Phases, shift_phases
from softib.sim.paths import Plane, Scale

if TYPE_CHECKING:
    from softib.analysis.routed import Routed

__all__ = ["phases_of"]

AT_ONCE = 1 << 20
"""Pairs whose SLs are asked for together."""


def phases_of(
    found: Routed, size: int, scale: Scale | None = None, progress: Callable[[int, int, int], None] | None = None
) -> Phases:
    """:func:`softib.sim.fluid_phases.shift_phases` of all hosts of ``found``, each pair on the SL
    that its manager states.

    Raises :class:`InputError` for a pair that no path leads to, or that shares no partition.
    """
    plane = Plane(found.fabric, scale=scale)
    hosts = plane.phase_tables.hosts
    if hosts < 2:
        raise InputError(f"{found.fabric.name or 'the fabric'} has {hosts} hosts with an address; traffic takes two")
    path_sl = _path_sl(found, plane, hosts)
    return shift_phases(plane if path_sl is None else Plane(found.fabric, path_sl, scale), size, progress=progress)


def _path_sl(found: Routed, plane: Plane, hosts: int) -> np.ndarray | None:
    """``path_sl`` of :class:`Plane` for pairs of hosts; None where all are 0."""
    sls = np.zeros((len(plane.ends), len(plane.ends)), np.uint8)
    rows = max(AT_ONCE // hosts, 1)
    for begin in range(0, hosts, rows):
        source, target = (a.ravel() for a in np.mgrid[begin : min(begin + rows, hosts), 0:hosts])
        apart = source != target
        stated = stated_sls(found, plane, source[apart], target[apart])
        if stated is None:
            return None
        sls[source[apart], target[apart]] = np.maximum(stated, 0)
    return sls if sls.any() else None
