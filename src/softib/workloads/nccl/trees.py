"""NCCL's double binary tree (src/graph/trees.cc; Sanders, Speck, Träff 2009): each rank is an inner
node in one tree and a leaf in the other."""

from __future__ import annotations

__all__ = ["ROOT", "double_tree", "parents_of"]

ROOT = -1


def parents_of(n: int) -> list[int]:
    """Return the parent of each of ``n`` nodes in the first tree (the root, 0, has :data:`ROOT`).
    Odd nodes are leaves. The parent of a node whose lowest set bit is k has bit k clear and bit k + 1 set, and
    otherwise the same bits; if that node does not exist, only bit k is cleared."""
    parents = [ROOT] * n
    for v in range(1, n):
        bit = v & -v
        upper = (v ^ bit) | (bit << 1)
        parents[v] = upper if upper < n else v ^ bit
    return parents


def double_tree(n: int) -> tuple[list[int], list[int]]:
    """Return the parents in both trees. The second tree is the first one mirrored if ``n`` is even,
    and shifted by one if it is odd."""
    one = parents_of(n)
    two = [ROOT] * n
    for v in range(n):
        image = (v + 1) % n if n % 2 else n - 1 - v
        parent = one[v]
        two[image] = ROOT if parent == ROOT else (parent + 1) % n if n % 2 else n - 1 - parent
    return one, two
