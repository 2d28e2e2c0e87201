"""Requests to a daemon: one JSON line to its control socket, one back."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from softib import __version__
from softib.errors import InputError, PeerError, SoftibBug
from softib.live.instances import Instance

__all__ = ["ask", "stop"]

VERSION = __version__
PATIENCE_S = 30.0
"""A daemon that computes routes answers when it is done."""


def ask(instance: Instance, op: str, patience_s: float = PATIENCE_S, **more: Any) -> dict[str, Any]:
    """The daemon's answer to ``{"op": op, …}``.

    Raises :class:`InputError` with the daemon's reason where it refuses (as it does to another version of softib), :class:`SoftibBug` where it met a bug of ours,
    :class:`PeerError` where it does not answer.
    """
    line = json.dumps({"op": op, "version": VERSION, **more}).encode() + b"\n"
    got = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(patience_s)
            s.connect(str(instance.control))
            s.sendall(line)
            while not got.endswith(b"\n"):
                part = s.recv(1 << 16)
                if not part:
                    break
                got += part
        answer = json.loads(got)
    except (OSError, ValueError) as error:
        raise PeerError(f"the daemon of {instance.name!r} does not answer: {error or type(error).__name__}") from None
    if "error" in answer and answer.get("bug"):
        raise SoftibBug(f"{answer['error']}; please report; traceback in {instance.log}")
    if "error" in answer:
        raise InputError(answer["error"])
    return dict(answer)


STOP_S = 15.0
"""How long a daemon that was asked to stop may take."""


def stop(instance: Instance) -> None:
    """Ask the daemon to stop, and wait until it is gone. Raises :class:`PeerError` where it still runs after :data:`STOP_S`."""
    ask(instance, "down", STOP_S)
    until = time.monotonic() + STOP_S
    while instance.held():
        if time.monotonic() > until:
            raise PeerError(f"the daemon of {instance.name!r} was asked to stop and still runs; see 'softib status'")
        time.sleep(0.02)
