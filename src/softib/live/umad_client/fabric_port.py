"""A umad device of a host of a running fabric, for a process that was not started with ``softib run``. It exchanges the
messages of ``libsoftib-umad.so`` without that library."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from softib.errors import PeerError
from softib.live.control import attach
from softib.live.instances import Instance
from softib.live.umad.wire import MESSAGE_SIZE, constant, types
from softib.live.umad_client.abi import ASKS, CLASS_VERSION, HEAD_SIZE
from softib.live.umad_client.devices import UmadDevice
from softib.live.umad_client.kernels import NO_AGENT
from softib.live.umad_client.port import ROWS, UmadPort, _wire
from softib.mad.batch import MadBatch, mad_columns

__all__ = ["FabricPort", "other_subnets"]

LOCAL_WINDOW = 96
"""Maximum number of outstanding requests. Their answers fit into the socket's buffer (212,992 bytes hold about 270)."""
PATIENCE_MS = 20
"""Time without an arriving MAD after which outstanding requests are no longer awaited."""


class FabricPort(UmadPort):
    """A :class:`UmadPort` on ``node`` (default: the first host) of the running fabric ``instance``;
    ``portnum``: the port of its adapter (default: the first cabled one).
    Nothing needs to be preloaded, so a process may have several such ports. Raises
    :class:`InputError` for a node, :class:`PeerError` if the daemon does not serve it."""

    def __init__(
        self,
        instance: Instance,
        node: str | None = None,
        classes: Mapping[int, int] = ASKS,
        *,
        portnum: int | None = None,
        timeout_ms: int = 180,
        window: int = LOCAL_WINDOW,
    ):
        attached = attach(instance, node, portnum)
        server, view = attached.env["SOFTIB_UMAD"], attached.view.name
        self.device = UmadDevice("umad0", "", attached.name, attached.portnum, 0, 0, attached.name)
        self.timeout_ms, self.window = timeout_ms, window
        self.sent = self.received = self.refused = 0
        self.head, self._patience_ms = HEAD_SIZE, PATIENCE_MS
        self._sock, handle = request(server, op=constant("OPEN"), view=view.encode(), path=b"0")
        self._agents = np.full(256, NO_AGENT, np.uint8)
        try:
            for mgmt_class, methods in classes.items():
                sock, agent = request(
                    server,
                    op=constant("REGISTER"),
                    handle=handle,
                    qpn=0 if mgmt_class in (0x01, 0x81) else 1,
                    mgmt_class=mgmt_class,
                    mgmt_class_version=CLASS_VERSION.get(mgmt_class, 1),
                    method_mask=[methods & (1 << 64) - 1, methods >> 64],
                )
                sock.close()
                self._agents[mgmt_class] = agent
        except PeerError:
            self._sock.close()
            raise
        self._sock.setblocking(False)
        self.fd = self._sock.fileno()
        self._wire, self._columns = _wire(self.fd), mad_columns(ROWS)
        self._later: deque[MadBatch] = deque()

    def announce(self, repeated: bool = False) -> None:
        """Do nothing, since this is not a manager's port."""

    def _read_special(self, inbox: list[MadBatch]) -> None:
        """Handle a message that cannot be read. Without RMPP no message is longer than a MAD, so the daemon has ended,
        or a signal arrived."""
        try:
            if not self._sock.recv(MESSAGE_SIZE, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                raise PeerError(f"{self.device}: the fabric went down")
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerError(f"{self.device}: the fabric went down: {error.strerror}") from None

    def _refused(self, row: int) -> None:
        """Handle a refused message ``row``: the daemon has no room for it now, or has ended (:class:`PeerError`)."""
        wire = self._wire
        message = wire.out[row, : int(wire.sizes[row])].tobytes()
        try:
            self._sock.setblocking(True)
            self._sock.settimeout(self.timeout_ms / 1e3)
            self._sock.send(message)
            self.sent += 1
        except TimeoutError:
            self.refused += 1
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENOBUFS):
                self.refused += 1
                return
            raise PeerError(f"{self.device}: the fabric went down: {error.strerror}") from None
        finally:
            self._sock.setblocking(False)

    def close(self) -> None:
        """Close the device."""
        self._sock.close()
        self.fd = -1


def request(server: str, **fields: Any) -> tuple[socket.socket, int]:
    """Send one request to the daemon's umad socket; return the connection and the value of the
    answer. Raises :class:`PeerError`."""
    question = np.zeros(1, types()["softib_umad_ask"])
    question["magic"], question["version"] = constant("MAGIC"), constant("VERSION")
    for name, value in fields.items():
        question[name] = value
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.settimeout(30)
        sock.connect(server)
        sock.sendall(question.tobytes())
        reply = np.frombuffer(sock.recv(MESSAGE_SIZE), types()["softib_umad_reply"])[0]
        if reply["error"]:
            raise PeerError(f"the host's umad device cannot be opened: {os.strerror(int(reply['error']))}")
    except (OSError, ValueError, IndexError) as error:
        sock.close()
        raise PeerError(f"the fabric's umad devices do not answer: {error}") from None
    except PeerError:
        sock.close()
        raise
    return sock, int(reply["value"])


def other_subnets(instance: Instance) -> str:
    """Return a line with the subnets of the running fabric that a :class:`FabricPort` on the first
    host cannot reach; "" if there are none."""
    from softib.fabric.subnets import managed_subnets, master_port
    from softib.live.shared_fabric import SharedFabric

    fabric = SharedFabric.snapshot(instance.shared_fabric)
    masters = [fabric.port_name(master_port(fabric, ends)) for ends in managed_subnets(fabric)]
    if len(masters) < 2:
        return ""
    return (
        f"{instance.name} has {len(masters)} subnets with managers; this reads that of {masters[0]}, not that of "
        f"{', '.join(masters[1:])}: name another as umad:DEVICE in 'softib run --fabric {instance.name} -- softib …'"
    )
