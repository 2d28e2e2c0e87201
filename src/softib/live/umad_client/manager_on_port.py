"""Name of the process that manages the subnet from a port, for the message that refuses a second manager there.

A port has one subnet manager: the driver gives each unsolicited MAD to one agent, and lets one file of the issm
device be open (Linux, Documentation/infiniband/user_mad.rst).
"""

from __future__ import annotations

import os
from pathlib import Path

from softib.errors import InputError, PeerError
from softib.foreign_text import shown
from softib.live import control, instances
from softib.live.proc import command_name
from softib.live.umad_client.devices import UmadDevice

__all__ = ["second_manager"]

PATIENCE_S = 5.0


def second_manager(device: UmadDevice) -> str:
    """Return a message that refuses another manager on ``device``: it names the manager that runs there, and states
    what to do."""
    server = os.environ.get("SOFTIB_UMAD")
    holder, remedy = _of_fabric(device, Path(server).parent.name) if server else _of_kernel(device)
    return f"{device}: {holder or 'another subnet manager'} runs on this port; {remedy}"


def _of_kernel(device: UmadDevice) -> tuple[str, str]:
    """Return (the process that has the issm device open, or "" if it belongs to another user; what to do)."""
    remedy = f"stop it ('fuser {device.issm_path or device.path}' names the process), or use another port"
    for fds in Path("/proc").glob("[0-9]*/fd") if device.issm else ():
        try:
            opened = any(os.readlink(fd) == device.issm_path for fd in fds.iterdir())
        except OSError:  # the process has ended, or belongs to another user
            continue
        if opened:
            return _named(int(fds.parent.name)), remedy
    return "", remedy


def _of_fabric(device: UmadDevice, name: str) -> tuple[str, str]:
    """Return (the manager on this port of the running fabric ``name``; what to do)."""
    other = "use the port of another host ('softib run --node HOST')"
    try:
        status = control.ask(instances.find(name), "status", PATIENCE_S)
    except (InputError, PeerError):
        return "", other
    host = device.node_desc
    pid = next(
        (c["pid"] for c in status["clients"] if c["sm"] and (c["node"], c["portnum"]) == (host, device.portnum)), 0
    )
    if pid:
        return _named(pid), f"stop it, or {other}"
    if status["sm"]["kind"] == "internal":
        return (
            f"the subnet manager of fabric {name} (process {status['pid']})",
            f"{other}, or start the fabric with 'softib up SOURCE --sm external'",
        )
    return "", other


def _named(pid: int) -> str:
    return f"{shown(command_name(pid).decode('utf-8', 'replace')) or 'a subnet manager'} (process {pid})"
