"""The control socket of a running fabric: each request is one line of JSON, and so is its reply. The module has the
client functions (:func:`ask`, :func:`attach`, :func:`stop`) and the daemon's server."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from softib import __version__
from softib.document_reader import read_result
from softib.errors import InputError, PeerError, SoftibBug, SoftibError, os_reason
from softib.live.admission import peer_of
from softib.live.crash_log import ReportBug, raised
from softib.live.instances import Instance, room_advice
from softib.live.proc import has_ended, is_stopped
from softib.live.unix_server import UnixServer, receive
from softib.result import Result

__all__ = ["Attached", "ControlServer", "ask", "attach", "stop"]


LONGEST_LINE = 1 << 16
ANY_VERSION = ("down",)
"""Operations that programs of another version of softib may also request. A request that states no version is treated
as one from the daemon's version."""
Operation = Callable[[dict[str, Any]], dict[str, Any]]


class ControlServer(UnixServer):
    """Listens at ``path`` and answers each line with the result of ``operations[line["op"]]``.

    The answer is ``{"error": a line}`` if the operation raises :class:`SoftibError`, or if the request is not a JSON
    object or is too long. Any other failure is a bug of softib: the answer is ``{"error": …, "bug": true}``, and
    ``report_bug`` is called.
    """

    def __init__(
        self,
        path: Path,
        selector: selectors.BaseSelector,
        operations: dict[str, Operation],
        report_bug: ReportBug = raised,
    ):
        super().__init__(path, selector)
        self.operations, self.report_bug = operations, report_bug
        self.open: dict[socket.socket, bytearray] = {}

    def accepted(self, sock: socket.socket) -> None:
        """Begin to read lines from this connection."""
        self.open[sock] = bytearray()
        self.selector.register(sock, selectors.EVENT_READ, lambda events: self.listen_to(sock))
        self.expect(sock)

    def accepted_last(self, sock: socket.socket) -> None:
        """Serve this connection even if it took the last descriptor, because ``softib status`` and ``softib down`` are
        needed most then."""
        self.accepted(sock)

    def listen_to(self, sock: socket.socket) -> None:
        """Read lines and answer each."""
        part = receive(sock, LONGEST_LINE)
        if part is None:
            return
        got = self.open.get(sock)
        if got is None:  # closed earlier in this step of the loop
            return
        got += part
        while b"\n" in got:
            line, _, rest = bytes(got).partition(b"\n")
            got[:] = rest
            self.expect(sock)
            if not self._reply(sock, self._answer(line)):
                part = b""
                break
        if not part or len(got) > LONGEST_LINE:
            self.dismiss(sock)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            json.dumps(request, ensure_ascii=False).encode()  # raises an error for an unpaired surrogate
            operation = self.operations[request["op"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": f"not understood; a line is a JSON object with op, one of {', '.join(self.operations)}"}
        version = request.pop("version", __version__)
        if version != __version__ and request["op"] not in ANY_VERSION:
            return {
                "error": f"this fabric runs softib {__version__}, and this is softib {version}; use the same version, "
                "or stop it with 'softib down' and start it again"
            }
        try:
            answer = operation(request)
            json.dumps(answer)
            return answer
        except OSError as error:  # a failure of the machine: a full file system, no descriptor left
            where = error.filename or self.path.parent
            return {"error": f"the daemon: {where}: {room_advice(error) or os_reason(error)}"}
        except Exception as error:
            if isinstance(error, SoftibError) and not isinstance(error, SoftibBug):
                return {"error": str(error)}
            self.report_bug(f"doing {request['op']!r}")
            return {"error": f"{type(error).__name__} in the daemon: {' '.join(str(error).split())}", "bug": True}

    def _reply(self, sock: socket.socket, answer: dict[str, Any]) -> bool:
        sock.settimeout(1.0)  # a client that does not read its (small) answer loses it
        try:
            sock.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            return False
        sock.setblocking(False)
        return True

    def dismiss(self, sock: socket.socket) -> None:
        """Close a connection."""
        del self.open[sock]
        super().dismiss(sock)
        self.restore_reserve()


VERSION = __version__
PATIENCE_S = 30.0
"""Time limit for an answer in seconds: while the daemon computes routes, it does not answer."""
LOOK_S = 1.0
"""Seconds without an answer after which the client checks whether the daemon is stopped."""


def ask(instance: Instance, op: str, patience_s: float = PATIENCE_S, **more: Any) -> dict[str, Any]:
    """Return the daemon's answer to ``{"op": op, …}``.

    Raises :class:`InputError` with the daemon's reason if it refuses (for example because its version of softib
    differs), :class:`SoftibBug` if the operation failed with a bug, :class:`PeerError` if the daemon does not answer.
    """
    line = json.dumps({"op": op, "version": VERSION, **more}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(min(LOOK_S, patience_s))
            s.connect(str(instance.control))
            s.sendall(line)
            answer = json.loads(_line_of(s, instance, patience_s))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error or type(error).__name__
        raise PeerError(f"the daemon of {instance.name!r} does not answer: {why}") from None
    if "error" in answer and answer.get("bug"):
        raise SoftibBug(f"{answer['error']}; please report; traceback in {instance.log}")
    if "error" in answer:
        raise InputError(answer["error"])
    return dict(answer)


def _line_of(sock: socket.socket, instance: Instance, patience_s: float) -> bytes:
    """Return the line with which the daemon at ``sock`` answers. Raises :class:`PeerError` if the daemon
    ends first, is stopped, or takes longer than ``patience_s``."""
    got, until, pid = b"", time.monotonic() + patience_s, peer_of(sock).pid
    who = f"the daemon of {instance.name!r} (process {pid})"
    while not got.endswith(b"\n"):
        try:
            part = sock.recv(1 << 16)
        except TimeoutError:
            if is_stopped(pid):
                raise PeerError(
                    f"{who} is stopped; 'kill -CONT {pid}' resumes it, 'kill -KILL {pid}' ends it"
                ) from None
            if time.monotonic() > until:
                raise PeerError(f"{who} has not answered for {patience_s:.0f} s; its log is {instance.log}") from None
            continue
        except ConnectionError:
            part = b""
        if not part:
            raise PeerError(f"{who} ended before it answered")
        got += part
    return got


@dataclass
class Attached(Result):
    """The daemon's answer to a program that attaches: the program's node and ports, and its environment."""

    name: str
    """The node."""
    portnum: int
    place: str
    """The port, for example ``host-1[1]``."""
    ethernet: bool
    """Whether the link layer of this port is Ethernet."""
    env: dict[str, str]
    """Environment variables for the program."""
    ports: list[tuple[int, str]]
    """Row and name of each port that the program sees."""
    manager: str
    """The port of softib's manager if it is one of ``ports``, otherwise empty."""

    @property
    def view(self) -> Path:
        """Return the folder of the files that the program sees as ``/sys`` and ``/dev``."""
        return Path(self.env["SOFTIB_VIEW"])

    @property
    def addresses(self) -> list[str]:
        """Return the IP addresses of the node."""
        return self.env["SOFTIB_ADDRESSES"].split()


def attach(instance: Instance, node: str | None = None, port: int | None = None, rank: int | None = None) -> Attached:
    """Return the daemon's answer to a program that wants to attach to the fabric. Paths in its
    ``env`` are below the fabric's directory under the name that this process uses for it; in a container, the directory
    may have another path."""
    attached = read_result(Attached, ask(instance, "attach", node=node, port=port, rank=rank), "attach")
    theirs = os.path.dirname(attached.env["SOFTIB_UMAD"])
    paths = {
        name: os.path.join(instance.folder, os.path.relpath(attached.env[name], theirs))
        for name in ("SOFTIB_UMAD", "SOFTIB_VIEW")
    }
    return replace(attached, env={**attached.env, **paths})


STOP_S = 15.0
"""Time limit for a daemon to stop serving after the request to stop."""
EXIT_S = 2.0
"""Time limit for the daemon's process to end after it has released the fabric's name."""
REMOVE_S = 120.0
"""Time that the daemon may take to remove its files after it has stopped serving. There are thousands of files (every
node in use has a separate /sys), and each takes milliseconds on a busy disk."""


def stop(instance: Instance) -> None:
    """Request the daemon to stop, and wait until it has released the fabric's name. Then wait for its process to end,
    but at most :data:`EXIT_S`, because a Python program that served a fabric may continue. Raises :class:`PeerError` if
    the daemon still serves after :data:`STOP_S`, or still removes files after another :data:`REMOVE_S`."""
    pid = ask(instance, "down", STOP_S).get("pid")
    began = time.monotonic()
    while instance.held():
        spent = time.monotonic() - began
        if spent > STOP_S and instance.control.exists():
            raise PeerError(f"the daemon of {instance.name!r} did not stop in time; see 'softib status'")
        if spent > STOP_S + REMOVE_S:
            raise PeerError(
                f"the daemon of {instance.name!r} has stopped but still removes its files in {instance.folder}; a "
                f"runtime directory in memory (tmpfs) is faster"
            )
        time.sleep(0.02)
    freed = time.monotonic()
    while isinstance(pid, int) and pid != os.getpid() and time.monotonic() < freed + EXIT_S and not has_ended(pid):
        time.sleep(0.01)
