"""Write labels of Kubernetes nodes that state each host's location in the fabric.

The keys are those of NVIDIA's Topograph: ``network.topology.nvidia.com/tier-0`` is the leaf switch,
``tier-1`` the switches above it, and so on. The keys ``leaf``, ``spine`` and ``core``, from earlier
releases of Topograph, name the first three tiers. Interchangeable switches have a common name, as
in Slurm's tree (:mod:`softib.fabric.formats.slurm`). The file is JSON, since YAML reads some names
as numbers. ``kubectl apply --server-side -f FILE`` sets the labels.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from softib.fabric.formats.slurm import tree
from softib.fabric.model import Fabric
from softib.whole_files import write_text

__all__ = ["write"]

PREFIX = "network.topology.nvidia.com/"
TIERS = ("leaf", "spine", "core")
LONGEST = 63
"""Maximum number of characters in a label's value (Kubernetes, "Labels and Selectors": letters,
digits and ``-_.``, with a letter or digit at both ends)."""


def write(fabric: Fabric, path: str | Path) -> list[str]:
    """Write one Node per host, with its labels. Return notes on content that labels cannot
    represent."""
    lines, notes = tree(fabric)
    above = {child: line.name for line in lines for child in line.children}
    out = []
    for line in lines:
        tiers = [line.name]
        while tiers[-1] in above:
            tiers.append(above[tiers[-1]])
        values = {f"tier-{i}": _value(name) for i, name in enumerate(tiers)}
        values.update((tier, _value(name)) for tier, name in zip(TIERS, tiers, strict=False))
        labels = {PREFIX + key: value for key, value in values.items()}
        out += [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.lower().replace("_", "-"), "labels": labels}}
            for host in line.nodes
        ]
    write_text(path, json.dumps({"apiVersion": "v1", "kind": "List", "items": out}, indent=1) + "\n")
    return notes


def _value(name: str) -> str:
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "", re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:LONGEST])
