"""``routing_engine`` of an options file: a list of names, as OpenSM 3.3.23 and NVIDIA's OpenSM have
them."""

from __future__ import annotations

import re

from softib.routing.engine import ENGINES, engines

__all__ = ["engines_of", "unknown_to_opensm"]

OPENSM = (
    "minhop",
    "updn",
    "dnup",
    "file",
    "ftree",
    "lash",
    "dor",
    "torus-2QoS",
    "nue",
    "dfsssp",
    "sssp",
    "no_fallback",
)
"""Words of 3.3.23."""

ADAPTIVE = {"ar_updn": "updn", "ar_ftree": "ftree", "ar_dor": "dor", "ar_minhop": "minhop"}
"""NVIDIA's engines with adaptive routing → the engine that makes their forwarding tables."""
LAST = "minhop"
"""What OpenSM goes on with where no engine of the list can be had."""


def engines_of(text: str) -> tuple[str, bool, list[str]]:
    """(engines that softib routes with, with adaptive routing?, notes). A name that nobody knows is
    passed over, as OpenSM does."""
    names, adaptive, notes = [], False, []
    for name in _names(text):
        if name in ENGINES:
            names.append(name)
        elif name in ADAPTIVE:
            names.append(ADAPTIVE[name])
            adaptive = True
            notes.append(f"{name} of NVIDIA's OpenSM is {ADAPTIVE[name]} with adaptive_routing free")
        elif name == "no_fallback":
            notes.append("no_fallback is not used: minhop's tables are better than none; --strict refuses them")
        elif name in engines():
            names.append(name)
        else:
            notes.append(f"no engine {name}; passed over, as OpenSM 3.3.23 does")
    if not names:
        notes.append(f"{LAST} routes, as OpenSM's last resort")
    return ",".join(names or [LAST]), adaptive, notes


def unknown_to_opensm(text: str) -> list[str]:
    """Names of the list that OpenSM 3.3.23 passes over."""
    return [name for name in _names(text) if name not in OPENSM]


def _names(text: str) -> list[str]:
    return [name for name in re.split(r"[, \t]+", text) if name]
