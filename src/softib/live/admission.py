"""Admission to a running fabric: only the user who started it and root may use it. The kernel reports the user at the
other end of a Unix socket.

Stream and seqpacket sockets carry the peer's credentials from connect(2) on (SO_PEERCRED); a datagram carries its
sender's credentials if the receiver requested them (SO_PASSCRED, SCM_CREDENTIALS): unix(7).
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from softib.live.crash_log import say

__all__ = ["CREDENTIALS_SIZE", "Admission", "Credentials", "peer_of", "sender_of", "user_name"]

UCRED = struct.Struct("=iII")
CREDENTIALS_SIZE = socket.CMSG_SPACE(UCRED.size)
MOST_LINES = 16
"""Number of refused users that are logged."""


@dataclass(frozen=True)
class Credentials:
    """The user and process at the other end of a socket, as the kernel reports them. ``pid`` is 0 if the process is in
    a PID namespace that is not visible from here."""

    pid: int
    uid: int


def peer_of(sock: socket.socket) -> Credentials:
    """Return the process at the other end of ``sock``."""
    pid, uid, _ = UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size))
    return Credentials(pid, uid)


def sender_of(ancillary: Iterable[tuple[int, int, bytes]]) -> Credentials | None:
    """Return the sender of a datagram, from its ancillary data; None if the kernel did not name
    one."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= UCRED.size:
            pid, uid, _ = UCRED.unpack_from(data)
            return Credentials(pid, uid)
    return None


def user_name(uid: int) -> str:
    """Return ``uid 1000 (alice)``, or without the name if the system has none."""
    try:
        return f"uid {uid} ({pwd.getpwuid(uid).pw_name})"
    except (KeyError, OSError):
        return f"uid {uid}"


class Admission:
    """Admits only root and the user of this process to a socket. ``place``: the name of the socket in the log. The
    first refusal of each user is logged."""

    def __init__(self, place: str):
        self.place = place
        self._refused: set[int] = set()

    def admits(self, client: Credentials | None) -> bool:
        """Return whether the fabric serves ``client``. A sender without credentials is refused."""
        if client is not None and client.uid in (os.geteuid(), 0):
            return True
        uid = -1 if client is None else client.uid
        if uid not in self._refused and len(self._refused) < MOST_LINES:
            self._refused.add(uid)
            name = "a sender without credentials" if client is None else f"{user_name(uid)}, pid {client.pid}"
            say(f"refused at {self.place}: {name}; only this user and root may use the fabric")
        return False
