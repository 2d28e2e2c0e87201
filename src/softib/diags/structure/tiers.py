"""Tiers of switches: one count and one set of names for everything that speaks of them.

A switch's tier is its rank in :class:`~softib.diags.structure.recognise.Structure`: 1 for leaves,
one more for each step away from them. Switches from which no link leads to a leaf have none. Tiers
and those without one sum up to all switches.
"""

from __future__ import annotations

import numpy as np

__all__ = ["TREES", "UNTIERED", "count_tiers", "tier_name", "tier_text"]

TREES = ("fat-tree", "rail-optimized", "dragonfly+")
"""Kinds of structure whose tiers have names."""
NAMES = ("leaf", "spine", "core")
UNTIERED = "without a way to a leaf"


def tier_name(tier: int) -> str:
    """``leaf``, ``spine``, ``core``, ``tier 4``, … of tiers from 1."""
    return NAMES[tier - 1] if tier <= len(NAMES) else f"tier {tier}"


def count_tiers(rank: np.ndarray) -> tuple[dict[int, int], int]:
    """({tier: switches} by ascending tier, switches without a tier) of the ranks of all switches."""
    return {int(r): int((rank == r).sum()) for r in np.unique(rank[rank > 0])}, int((rank <= 0).sum())


def tier_text(tiers: dict[int, int], untiered: int) -> str:
    """``64 leaf, 64 spine, 32 core``: every tier, and the switches without one."""
    rows = [f"{n:,} {tier_name(t)}" for t, n in tiers.items()]
    return ", ".join(rows + ([f"{untiered:,} {UNTIERED}"] if untiered else []))
