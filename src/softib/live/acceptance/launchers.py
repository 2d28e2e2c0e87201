"""How a program is started on a host: on a node of a running fabric, by ssh, or by srun inside an allocation."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass

from softib.errors import UnknownName

__all__ = ["LAUNCHERS", "HostPort", "Launcher", "launcher_named"]

LAUNCHERS = ("local", "ssh", "srun")
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=accept-new")
"""No question at a terminal, and no waiting for a host that is off."""
SRUN = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--quiet")
NOT_REACHED = {"ssh": 255}
"""Exit code of a launcher that did not reach the host (ssh(1): 255)."""


@dataclass(frozen=True)
class HostPort:
    """A port to measure from: ``node`` (NodeDescription), ``host`` as the launcher knows it, ``device`` ("": the first), ``portnum``."""

    node: str
    host: str
    device: str
    portnum: int


@dataclass(frozen=True)
class Launcher:
    """``name`` of :data:`LAUNCHERS`; ``fabric``: the running fabric of ``local``."""

    name: str
    fabric: str = ""

    def command(self, at: HostPort, program: list[str], limit_s: float) -> list[str]:
        """The command on this machine that runs ``program`` at ``at``, for at most ``limit_s`` seconds there (timeout(1): what is left behind when a connection breaks ends, too)."""
        bounded = ["timeout", "-k", "2", f"{limit_s:.0f}", *program]
        if self.name == "ssh":
            return [*SSH, at.host, shlex.join(bounded)]
        if self.name == "srun":
            return [*SRUN, f"--nodelist={at.host}", *bounded]
        attached = ["--fabric", self.fabric, "--node", at.node, "--port", str(at.portnum)]
        return [sys.executable, "-m", "softib", "run", *attached, "--", *bounded]

    def address(self, at: HostPort) -> str:
        """Where a client finds the server on this host: on a running fabric all programs share this machine's addresses."""
        return "127.0.0.1" if self.name == "local" else at.host

    def device(self, at: HostPort) -> str:
        """The adapter to name; a node of a running fabric shows a program its own one alone."""
        return "" if self.name == "local" else at.device


def launcher_named(name: str, fabric: str = "") -> Launcher:
    """Raises :class:`UnknownName` for another one."""
    if name not in LAUNCHERS:
        raise UnknownName("launcher", name, LAUNCHERS)
    return Launcher(name, fabric)
