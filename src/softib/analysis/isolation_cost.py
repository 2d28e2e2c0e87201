"""What is left of a fabric's bisection bandwidth when the cables that findings want isolated are
away, all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from softib.diags.finding import Finding
from softib.diags.structure.recognise import recognise
from softib.fabric.model import Fabric
from softib.fabric.plugging import delete_cables

__all__ = ["with_bisection"]


def with_bisection(fabric: Fabric, found: Sequence[Finding]) -> list[Finding]:
    """The same findings; those with a cable between switches to isolate say in
    ``evidence["isolate"]`` the bisection in percent of full, now and without all the cables that
    are to be isolated now. A search (``softib.diags.capacity.bisection``) that is asked only where
    there is such a cable."""
    between = [i for i, f in enumerate(found) if "capacity_between_switches_left" in f.evidence.get("isolate", {})]
    away = [c for f in found if f.evidence.get("isolate", {}).get("now") and (c := _cable(fabric, f)) >= 0]
    if not between or not away:
        return list(found)
    before = recognise(fabric).bisection
    less = fabric.copy()
    delete_cables(less, np.array(away))
    after = recognise(less).bisection
    out = list(found)
    for i in between:
        isolate = {
            **found[i].evidence["isolate"],
            "bisection_percent": {"now": _percent(before), "all_isolated": _percent(after)},
        }
        out[i] = replace(found[i], evidence={**found[i].evidence, "isolate": isolate})
    return out


def _percent(bisection: object) -> float | None:
    return getattr(bisection, "percent", None)


def _cable(fabric: Fabric, found: Finding) -> int:
    """The cable of the finding's first port; -1 where the fabric has none there."""
    where = found.where[0]
    nodes = np.flatnonzero(fabric.node_guid == np.uint64(where.guid))
    if not len(nodes) or where.portnum is None or not 0 < where.portnum <= int(fabric.node_nports[nodes[0]]):
        return -1
    return int(fabric.port_cable[int(fabric.node_base[nodes[0]]) + where.portnum])
