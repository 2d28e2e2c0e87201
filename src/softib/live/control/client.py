"""Requests to a daemon: one JSON line to its control socket, one back."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

from softib import __version__
from softib.errors import InputError, PeerError, SoftibBug
from softib.live.instances import Instance

__all__ = ["ask", "attach", "stop"]

VERSION = __version__
PATIENCE_S = 30.0
"""A daemon that computes routes answers when it is done."""


def ask(instance: Instance, op: str, patience_s: float = PATIENCE_S, **more: Any) -> dict[str, Any]:
    """The daemon's answer to ``{"op": op, …}``.

    Raises :class:`InputError` with the daemon's reason where it refuses (as it does to another
    version of softib), :class:`SoftibBug` where it met a bug of ours, :class:`PeerError` where it
    does not answer.
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


def attach(
    instance: Instance, node: str | None = None, port: int | None = None, rank: int | None = None
) -> dict[str, Any]:
    """The daemon's answer to a program that wants a place. Paths in its ``env`` are below the
    fabric's directory as it is called here: in a container it may be mounted elsewhere."""
    attached = ask(instance, "attach", node=node, port=port, rank=rank)
    env = attached["env"]
    theirs = os.path.dirname(env["SOFTIB_UMAD"])
    for name in ("SOFTIB_UMAD", "SOFTIB_VIEW"):
        env[name] = os.path.join(instance.folder, os.path.relpath(env[name], theirs))
    return attached


STOP_S = 15.0
"""How long a daemon that was asked to stop may go on serving."""
REMOVE_S = 120.0
"""How long it may take after that to remove its files: thousands (every node that was used has a
/sys of its own), and milliseconds each on a busy disk."""


def stop(instance: Instance) -> None:
    """Ask the daemon to stop, and wait until it is gone. Raises :class:`PeerError` where it still
    serves after :data:`STOP_S`, or removes files :data:`REMOVE_S` later."""
    ask(instance, "down", STOP_S)
    began = time.monotonic()
    while instance.held():
        spent = time.monotonic() - began
        if spent > STOP_S and instance.control.exists():
            raise PeerError(f"the daemon of {instance.name!r} was asked to stop and still runs; see 'softib status'")
        if spent > STOP_S + REMOVE_S:
            raise PeerError(
                f"the daemon of {instance.name!r} has stopped and still removes its files in {instance.folder}; a "
                f"runtime directory in memory (tmpfs) is faster"
            )
        time.sleep(0.02)
