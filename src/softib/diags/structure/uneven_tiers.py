"""Tiers that are uneven as a whole: so many switches lack uplinks or spread them unevenly that no
majority is right.

What each has is compared by form: how many links, to how many switches above, in which bundles; not
to which switches. The most frequent form is how the tier was meant; a switch with fewer links, or
with as many in other bundles, is uneven.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from softib.diags.structure.uniform import Repairs, tier_rows, without_majority
from softib.diags.view import FabricView

__all__ = ["UnevenTier", "uneven_as_a_whole"]

MIN_SHARE = 0.25
"""Share of the switches that must have the most frequent form."""
MIN_SWITCHES = 8
FEWEST = 0.5
"""Share of the usual links below which a switch serves another purpose."""
FEW_UNEVEN = 2
"""More uneven switches than these are a finding."""


@dataclass(frozen=True)
class UnevenTier:
    """``right`` of ``of`` switches of ``tier`` have ``usual`` links to ``parents`` switches each.
    ``fewer``: (switch, links) of those with less; ``astray``: switches with as many that spread
    them otherwise."""

    tier: int
    of: int
    right: int
    usual: int
    parents: int
    fewer: tuple[tuple[int, int], ...]
    astray: tuple[int, ...]


def uneven_as_a_whole(view: FabricView, rank: np.ndarray, repairs: Repairs) -> list[UnevenTier]:
    """The tiers in which no majority is right, with every switch that is not as the most frequent
    form."""
    out = []
    ends, peers = np.concatenate([view.node_a, view.node_b]), np.concatenate([view.node_b, view.node_a])
    down = np.bincount(ends, (rank[peers] < rank[ends]) & ~view.is_sharp[peers], minlength=len(view.names))
    for tier, rows in tier_rows(view, rank, repairs):
        if len(rows) < MIN_SWITCHES or not without_majority(rows):
            continue
        forms = {switch: tuple(sorted(row.values())) for switch, row in rows.items()}
        form, right = max(Counter(forms.values()).items(), key=lambda x: (x[1], sum(x[0])))
        usual = sum(form)
        if right < MIN_SHARE * len(rows) or form[-1] != form[0]:
            continue
        links = {switch: sum(f) for switch, f in forms.items()}
        below = float(np.median([down[s] for s in rows if forms[s] == form]))
        # As many links for as many hosts are a smaller switch, not one that lacks any.
        fewer = tuple(
            (s, n) for s, n in sorted(links.items()) if FEWEST * usual <= n < usual and down[s] * usual > n * below
        )
        astray = tuple(s for s, n in sorted(links.items()) if n == usual and forms[s] != form)
        if len(fewer) + len(astray) > FEW_UNEVEN:
            out.append(UnevenTier(tier, len(rows), right, usual, len(form), fewer, astray))
    return out
