"""From two readings to what each counter rose by, where that can be told.

Counters of a port never fall by themselves and stop at the largest value of their field (IBA
16.1.3.5). So nothing can be told of a counter that fell (somebody cleared it, or the device
restarted), of the others of its port in that interval (they were cleared with it, and may have
passed their old value since), of one that stands at its largest value, or of a port that one of the
readings lacks. No increase is ever negative. That a counter stands there is told by a level,
``stuck_NAME``: 1 it stands at its largest value, 2 it got there in this interval (so it counted,
and nobody knows how much), 0 it counts on. ``least_port_fec_corrected_symbol_ctr`` tells what that
counter rose by at least when it got there, or passed it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.monitor.reading import Reading

__all__ = ["LEAST", "STUCK", "Interval", "between", "same_ports"]

STUCK = "stuck_"
"""Prefix of the level that tells of a counter that stands at its largest value."""

LEAST = "least_"
"""Prefix of the level that tells what a counter rose by at least, where it got to its largest value
in the interval or passed it."""
SYMBOLS, BLOCKS = "port_fec_corrected_symbol_ctr", "port_fec_correctable_block_ctr"
"""32 bits wide: at 4x NDR and a bit error ratio of 1e-3 the first is full after 10 s. Some devices
begin again at 0 there."""

RESTARTED = 0.5
"""Share of the ports of a device that had counted something and fell, above which it restarted:
then nothing can be told of any of its ports."""


@dataclass
class Interval:
    """What rose between two readings of the same ports (``guid``, ``portnum``): columns as
    :class:`~softib.diags.observations.Observations` has them."""

    guid: np.ndarray
    portnum: np.ndarray
    begin_ns: np.ndarray
    end_ns: np.ndarray
    increase: dict[str, np.ndarray]
    known: dict[str, np.ndarray]
    level: dict[str, np.ndarray]


def between(before: Reading, after: Reading) -> Interval:
    """What rose from ``before`` to ``after``; rows are those of ``after``, and a port that
    ``before`` lacks has begin = end."""
    rows, there = same_ports(after.guid, after.portnum, before.guid, before.portnum)
    good = there & after.answered & before.answered[rows]
    begin = np.where(good, before.time_ns[rows], after.time_ns)
    good &= after.time_ns > begin
    begin = np.where(good, begin, after.time_ns)
    fell = np.zeros(len(after), bool)
    counted = np.zeros(len(after), bool)
    both: dict[str, np.ndarray] = {}
    for name, now in after.value.items():
        if name not in before.value:
            both[name] = np.zeros(len(after), bool)
            continue
        both[name] = good & after.have[name] & before.have[name][rows]
        then = before.value[name][rows]
        if name != SYMBOLS:
            fell |= both[name] & (now < then) & ~_at_most(before, name)[rows]
        counted |= both[name] & (then > 0)
    wrapped = _wrapped(before, after, rows, both)
    if SYMBOLS in both and SYMBOLS in before.value:
        fell |= both[SYMBOLS] & (after.value[SYMBOLS] < before.value[SYMBOLS][rows]) & ~wrapped
    fell |= _restarted(after.guid, fell, counted)
    increase, known, level = {}, {}, dict(after.level)
    for name, now in after.value.items():
        if after.stuck[name].any():
            level[STUCK + name] = _stuck(name, after, before, rows, both[name])
        then = before.value[name][rows] if name in before.value else now
        sure = both[name] & ~fell & ~after.stuck[name] & ~_at_most(after, name)
        # Of a counter that was at most T, what it reads beyond T is the least that it rose by.
        sure &= ~_at_most(before, name)[rows] | (now > then)
        if name == SYMBOLS and name in before.value:
            full = both[name] & after.stuck[name] & ~before.stuck[name][rows] & ~fell
            if full.any() or wrapped.any():
                least = now.astype(np.float64) - then.astype(np.float64) + np.where(wrapped, 2.0**32, 0.0)
                level[LEAST + name] = np.where(full | (wrapped & ~fell), least, np.nan)
            sure &= ~wrapped
        known[name] = sure
        increase[name] = np.where(sure, now - np.minimum(then, now), np.uint64(0))
    return Interval(after.guid, after.portnum, begin, after.time_ns.copy(), increase, known, level)


def _wrapped(before: Reading, after: Reading, rows: np.ndarray, both: dict[str, np.ndarray]) -> np.ndarray:
    """Ports whose count of corrected symbols fell while that of corrected blocks rose: it passed
    its largest value, nobody cleared it. bool[n]"""
    if not all(name in both and name in before.value for name in (SYMBOLS, BLOCKS)):
        return np.zeros(len(after), bool)
    symbols, blocks = (after.value[name] > before.value[name][rows] for name in (SYMBOLS, BLOCKS))
    same = after.value[SYMBOLS] == before.value[SYMBOLS][rows]
    return np.asarray(both[SYMBOLS] & both[BLOCKS] & ~symbols & ~same & blocks)


def _at_most(reading: Reading, name: str) -> np.ndarray:
    return reading.at_most.get(name, np.zeros(len(reading), bool))


def _stuck(name: str, after: Reading, before: Reading, rows: np.ndarray, both: np.ndarray) -> np.ndarray:
    """The level ``stuck_NAME``. float64[n], NaN where the counter was not read."""
    stands = after.stuck[name]
    arrived = both & stands
    if name in before.stuck:
        arrived &= ~before.stuck[name][rows]
    return np.where(after.have[name], np.where(arrived, 2.0, stands.astype(np.float64)), np.nan)


def same_ports(
    guid: np.ndarray, portnum: np.ndarray, of_guid: np.ndarray, of_portnum: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Row among the ports ``of_guid``, ``of_portnum`` (sorted by both, one at least) of each port
    ``guid``, ``portnum``, and whether there is one."""
    if len(of_guid) == len(guid) and (of_guid == guid).all() and (of_portnum == portnum).all():
        return np.arange(len(guid)), np.ones(len(guid), bool)
    if not len(of_guid):
        raise ValueError("a reading of no ports")
    keys = np.dtype([("guid", np.uint64), ("portnum", np.int32)])
    old, new = np.zeros(len(of_guid), keys), np.zeros(len(guid), keys)
    old["guid"], old["portnum"], new["guid"], new["portnum"] = of_guid, of_portnum, guid, portnum
    rows = np.minimum(np.searchsorted(old, new), len(old) - 1)
    return rows, old[rows] == new


def _restarted(guid: np.ndarray, fell: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Ports of devices of which more than :data:`RESTARTED` of the ports that had counted fell.
    bool[n]"""
    if not fell.any():
        return np.zeros(len(guid), bool)
    _, device = np.unique(guid, return_inverse=True)
    device = device.reshape(-1)
    down, all_of = np.bincount(device, fell), np.bincount(device, counted)
    return np.asarray((down > RESTARTED * np.maximum(all_of, 1))[device])
