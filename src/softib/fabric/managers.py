"""Subnet managers that a source lists (``Source.sms``): their states by name, and which of them is
the master."""

from __future__ import annotations

from typing import Any

from softib.fabric.model import Fabric

__all__ = ["STATES", "master_of", "state_of"]

STATES = ("not active", "discovering", "standby", "master")
"""SMInfo:SMState by number (IBA 14.2.5.13)."""


def state_of(sm: dict[str, Any]) -> str:
    """State of a listed manager in words, from a number or from what tools print
    (``SMINFO_MASTER``); "unknown" for others."""
    state = sm.get("state")
    if isinstance(state, int):
        return STATES[state] if 0 <= state < len(STATES) else "unknown"
    return str(state or "unknown").lower().removeprefix("sminfo_").replace("_", " ")


def master_of(fabric: Fabric) -> int | None:
    """Row of the node that the source's one master sits on; None where it lists none, several, or
    one at an unknown node."""
    nodes = {sm.get("node") for sm in fabric.source.sms if state_of(sm) == "master"}
    node = nodes.pop() if len(nodes) == 1 else None
    return node if isinstance(node, int) and 0 <= node < fabric.sizes.nodes else None
