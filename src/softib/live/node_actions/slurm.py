"""Drain a node of Slurm."""

from __future__ import annotations

import subprocess

from softib.errors import PeerError, os_reason
from softib.foreign_text import shown

__all__ = ["drain"]

LIMIT_S = 20.0
MOST = 200
"""Maximum length of a reason in characters."""


def drain(node: str, reason: str) -> None:
    """Run ``scontrol update``: running jobs continue, and no new one starts. Raises
    :class:`PeerError` if scontrol does not exist, refuses, or does not answer."""
    text = f"softib node-check: {reason}"[:MOST]
    command = ["scontrol", "update", f"nodename={node}", "state=drain", f"reason={text}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise PeerError(f"scontrol: {os_reason(error)}; --drain needs Slurm's scontrol") from None
    except subprocess.TimeoutExpired:
        raise PeerError(f"scontrol did not answer within {LIMIT_S:.0f} s; node {node} is not drained") from None
    if done.returncode:
        output = shown((done.stderr or done.stdout).strip().partition("\n")[0])
        raise PeerError(f"scontrol did not drain node {node}: {output or f'exit code {done.returncode}'}")
