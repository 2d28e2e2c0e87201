"""How the groups of a dragonfly are joined: the arrangement that ``dragonfly`` and ``dragonfly+``
share."""

from __future__ import annotations

import numpy as np

__all__ = ["global_links"]


def global_links(groups: int, ports: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every global cable once as (group, its port, other group, its port), ports counted
    0…``ports`` - 1 in a group.

    The consecutive allocation of Camarero, Vallejo and Beivide (TACO 2014), called absolute by
    Hastings et al. (CLUSTER 2015), as figure 5 of Kim et al. (ISCA 2008) has it: the ports of a
    group go in order to the other groups in order. With fewer groups than ``ports + 1`` every pair
    gets the same number ``ports // (groups - 1)`` of cables, round by round; what is left over
    stays free.
    """
    others = groups - 1
    rounds = ports // others if others > 0 else 0
    a, b = np.triu_indices(groups, 1)
    r = np.arange(rounds)[:, None]
    # Port to the j-th other group, its own left out: b - 1 for a group before it, a for a group after it.
    port_a, port_b = r * others + (b - 1), r * others + a
    group_a, group_b = np.broadcast_to(a, port_a.shape), np.broadcast_to(b, port_b.shape)
    return group_a.ravel(), port_a.ravel(), group_b.ravel(), port_b.ravel()
