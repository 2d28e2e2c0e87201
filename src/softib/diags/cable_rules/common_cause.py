"""Finds a common cause of several bad cables: a switch, chassis, module, batch, vendor, device or firmware. K of all N
cables are suspected. A group of n cables, of which k are suspected, is reported if such a large k is unlikely to be an
accident (hypergeometric tail, times the number of examined groups).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.cable_rules.chances import hypergeometric_tail
from softib.diags.finding import Location, Severity, code, finding
from softib.plural import counted

__all__ = ["common_causes"]

COMMON_CAUSE = code(
    "common-cause",
    Severity.ERROR,
    "many cables of one switch, module, batch, vendor or firmware are bad",
    "check what they share before replacing any: power, cooling, a line card, a batch, a firmware",
)
KINDS = {
    "module_serial": "module",
    "system": "chassis",
    "module_part": "cables of part",
    "module_vendor": "cables of",
    "firmware": "firmware",
    "device": "device",
    "vendor": "devices of",
}
"""Texts of ports that group cables, from the narrowest cause to the widest, each with its name in messages."""


@dataclass(frozen=True)
class _Group:
    """``cables`` (rows) that share a part or property, for example the vendor: ``kind`` is what they share, ``name``
    its value, ``where`` the cables' locations.
    """

    kind: str
    name: str
    cables: np.ndarray
    where: tuple[Location, ...]


def common_causes(case: Case, suspicions: list[Suspicion]) -> Iterator[tuple[Suspicion, frozenset[int]]]:
    """Yield the finding about each group and the cables that it explains (rows of :attr:`Case.cable`), the most
    significant first.
    """
    suspects = np.unique(case.cable[[s.port for s in suspicions if s.cable and s.port >= 0]])
    total = len(case.cables)
    if len(suspects) < case.limits["group_least"] or not total:
        return
    groups = list(_groups(case))
    judged = []
    for at, group in enumerate(groups):
        bad = np.intersect1d(group.cables, suspects)
        if (
            len(bad) < case.limits["group_least"]
            or len(bad) < case.limits["group_share"] * len(group.cables)
            or len(group.cables) == total
        ):
            continue
        probability = len(groups) * hypergeometric_tail(len(bad), len(group.cables), len(suspects), total)
        if probability < case.limits["group_chance"]:
            judged.append((probability, -len(bad), at, bad))
    left = set(suspects.tolist())
    for probability, _, at, bad in sorted(judged, key=lambda j: j[:3]):
        explained = frozenset(bad.tolist()) & left
        if len(explained) < case.limits["group_least"]:
            continue
        left -= explained
        yield _of_group(case, groups[at], bad, len(suspects), probability), explained


def _of_group(case: Case, group: _Group, bad: np.ndarray, suspects: int, probability: float) -> Suspicion:
    links = [case.link(int(r)) for r in bad.tolist()]
    text = (
        f"{len(bad)} of the {counted(len(group.cables), 'cable')} of {group.kind} {group.name} are bad, {suspects} "
        f"of all {len(case.cables):,}: "
        f"the probability of that by accident is {probability:.1g}"
    )
    evidence = {
        "kind": group.kind,
        "name": group.name,
        "bad": links,
        "cables": len(group.cables),
        "bad_in_all": suspects,
        "cables_in_all": len(case.cables),
        "probability": probability,
    }
    return Suspicion(finding(COMMON_CAUSE, group.where, text, evidence), -1, 1.0 - probability, cable=False)


def _groups(case: Case) -> Iterator[_Group]:
    """Yield all groups: the cables of each switch, then the cables with a common text at either end."""
    cables = case.cables
    peer = np.asarray(case.ports.peer, np.int64)[cables]
    ends = np.stack([cables, np.where(peer >= 0, peer, cables)])
    node = case.node[ends]
    switch = case.ports.switch[ends]
    for n in np.unique(node[switch]).tolist():
        members = ((node == n) & switch).any(axis=0)
        row = int(ends[:, members][node[:, members] == n][0])
        yield _Group("switch", str(case.node_location(row)), cables[members], (case.node_location(row),))
    for text, kind in KINDS.items():
        column = case.ports.text.get(text)
        if column is None:
            continue
        texts = np.asarray(column, object).astype(str)[ends]
        for name in np.unique(texts[texts != ""]).tolist():
            members = (texts == name).any(axis=0)
            yield _Group(kind, name, cables[members], ())
