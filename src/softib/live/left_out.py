"""Parts of a running fabric that its internal manager did not bring up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.subnets import subnet_of
from softib.iba.constants import PortState
from softib.plural import counted, plural

__all__ = ["left_out"]

SHOWN = 3


def left_out(fabric: Fabric, port: int, problems: list[str]) -> tuple[list[str], list[str]]:
    """Return (faults, notes), one line each, about linked ports that are not ACTIVE although the manager on ``port`` is
    ready. A part of the fabric with at least half as many nodes as the manager's part counts as a separate subnet,
    which needs its own manager. It is reported as a note."""
    f, subnet = fabric, subnet_of(fabric)
    bad = np.flatnonzero(f.linked & np.isin(f.port_state, (PortState.INIT, PortState.ARMED)))
    here = subnet[bad] == subnet[port]
    faults: list[str] = []
    notes: list[str] = []
    if here.any():
        why = f" ({'; '.join(problems[:SHOWN])})" if problems else ""
        faults.append(f"{counted(int(here.sum()), 'port')} {_such(f.port_name, bad[here])} did not become ACTIVE{why}")
    size = len(np.unique(f.port_node[subnet == subnet[port]]))
    for part in np.unique(subnet[bad[~here]]).tolist():
        nodes = np.unique(f.port_node[np.flatnonzero(subnet == part)])
        whole = 2 * len(nodes) >= size
        (notes if whole else faults).append(
            f"{counted(len(nodes), 'node')} {_such(f.node_name, nodes)} {plural(len(nodes), 'has', 'have')} no path to "
            f"the subnet manager on {f.port_name(port)}, so their ports stay INIT"
            + ("; run another manager there (softib run --node N -- softib sm run)" if whole else "")
        )
    return faults, notes


def _such(name: Callable[[int], str], rows: np.ndarray) -> str:
    rest = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"({', '.join(name(int(r)) for r in rows[:SHOWN])}{rest})"
