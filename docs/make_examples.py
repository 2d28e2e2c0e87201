"""Writes ``examples/site/``: the dump of a small cluster as ibnetdiscover prints it, and the list by which it was cabled.

    python docs/make_examples.py

Both come from softib's own generator; no site's data is in them. Four things went wrong between the list and the dump
(:func:`as_found`); the names are as sites have them. Same code, same bytes: a test compares.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np

from softib.fabric.faults import inject
from softib.fabric.formats.cabling.plan import CablingPlan, write_plan
from softib.fabric.formats.registry import write
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "site"
SHAPE = {"radix": 16, "levels": 2, "hosts": 48, "generation": "HDR", "name": "site"}
SWITCH = {"leaf": "MF0;ib-leaf-{:02}:MQM8700/U1", "spine": "MF0;ib-spine-{:02}:MQM8700/U1"}
HOST = "cn{:03} mlx5_0"


def site_name(name: str) -> str:
    """``leaf-3`` as Quantum switches describe themselves, ``host-0007`` as the driver of a ConnectX does."""
    kind, number = re.fullmatch(r"(\w+)-(\d+)", name.split(" ")[0]).groups()  # type: ignore[union-attr]
    return SWITCH.get(kind, HOST).format(int(number))


def as_planned() -> Fabric:
    """48 hosts on six leaves and four spines, every leaf with eight uplinks, before anything went wrong."""
    fabric = generate("fat-tree", **SHAPE)
    for node in range(len(fabric.node_desc)):
        text = site_name(fabric.node_name(node)).encode()
        fabric.node_desc[node] = np.frombuffer(text.ljust(64, b"\0"), np.uint8)
    return fabric


def as_found(fabric: Fabric) -> Fabric:
    """``fabric`` with what went wrong, brought up by the subnet manager."""
    leaf = SWITCH["leaf"].format
    inject.swap_cables(fabric, f"{leaf(2)}[9]", f"{leaf(5)}[12]")  # two uplinks, exchanged at the leaves
    inject.slow_link(fabric, f"{HOST.format(17)}[1]", speed="EDR")  # an old cable: half the speed
    inject.remove_cable(fabric, f"{leaf(4)}[14]")  # never plugged in
    inject.swap_cables(fabric, f"{HOST.format(23)}[1]", f"{HOST.format(31)}[1]")  # two exchanged hosts
    bring_up(fabric)
    return fabric


def texts() -> dict[str, str]:
    """Text of each file by its name."""
    fabric = as_planned()
    with tempfile.TemporaryDirectory() as folder:
        plan, dump = Path(folder, "cabling-plan.csv"), Path(folder, "as-found.ibnetdiscover")
        write_plan(CablingPlan.from_fabric(fabric), plan)
        write(as_found(fabric), dump)
        return {p.name: p.read_text("utf-8") for p in (plan, dump)}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
