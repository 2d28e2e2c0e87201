"""The server's state for one program on one port, with the datagrams that wait to be sent to it."""

from __future__ import annotations

import selectors
import socket
import struct
from typing import Any

import numpy as np

from softib.iba.constants import RESPONSE_BIT, Method, MgmtClass
from softib.iba.smp import CLASS_AT, METHOD_AT
from softib.live.ibsim.wire import FRAME_SIZE, frames_of
from softib.live.proc import command_name
from softib.live.unix_server import SendQueue
from softib.mad.batch import MadBatch

__all__ = ["MANAGER_CLASSES", "Client"]

MANAGER_CLASSES = (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR, MgmtClass.SUBN_ADM)
"""Classes whose requests every subnet manager handles. OpenSM 3.3.23 registers these classes and 0x04 and 0x21. A MAD
of an unregistered class makes the stock library dereference NULL, so requests of 0x04 and 0x21 are not sent to
managers."""
SERVERS = {b"ibping": 0x32, b"ibsysstat": 0x33}
"""Programs of infiniband-diags that wait for requests without sending anything first, with the
vendor class (OpenIB's) of these requests."""
DONTWAIT = socket.MSG_DONTWAIT
QUEUE_LIMIT = 4096
"""Number of datagrams that may wait for one client; beyond it the oldest are lost, as in a full receive queue."""
PAUSE_AT = 256
"""Number of waiting answers from which on a client's requests are not read, so that its queue fills and its writes
block."""


class Client:
    """A connected program. ``classes`` (uint8[256]) are the management classes it has sent so far.

    Sending never blocks: datagrams that do not fit into the receiver's queue (10 datagrams,
    net.unix.max_dgram_qlen) wait in ``queue``. ``lost``: the program no longer exists.
    """

    waits_forever = True
    """The stock library has no timeouts."""

    def __init__(
        self,
        number: int,
        port: int,
        sock: socket.socket,
        peer: Any,
        source: Any,
        name: str,
        pid: int,
        selector: selectors.BaseSelector,
    ):
        self.number, self.port, self.sock = number, port, sock
        self.peer, self.source, self.name, self.pid = peer, source, name, pid
        self.issm = False
        self.lost = False
        self.classes = np.zeros(256, np.uint8)
        if sock.family == socket.AF_UNIX and (served := SERVERS.get(command_name(pid))):
            self.classes[served] = 1
        self.queue = SendQueue(sock, selector, QUEUE_LIMIT, keep_newest=True, pause_at=PAUSE_AT)

    @property
    def closed(self) -> bool:
        """Return whether the socket has refused data, or no program has the client's address any longer."""
        return self.lost or self.queue.broken

    def takes(self, mad: np.ndarray) -> bool:
        """Return whether the program can handle this MAD, which is a request from another program
        or the answer to its own request.

        A manager gets requests of its classes. Other programs get answers and application-class requests of the classes
        that they have sent, and reports that they subscribed to. They do not get requests that only managers handle
        (SMPs, traps, SA requests), which they would take for an answer.
        """
        klass, method = int(mad[CLASS_AT]), int(mad[METHOD_AT])
        if method & RESPONSE_BIT or method == Method.TRAP_REPRESS:
            return bool(self.classes[klass])
        if self.issm:
            return klass in MANAGER_CLASSES
        return bool(self.classes[klass]) and (klass not in MANAGER_CLASSES or method == Method.REPORT)

    def deliver(self, batch: MadBatch) -> None:
        """Send MADs; if others already wait, queue them."""
        for frame in frames_of(batch):
            self.queue.send(frame)

    def receive(self, frames: np.ndarray) -> int:
        """Fill ``frames`` (uint8[m, 288]) with the datagrams that have arrived; return their
        number. Datagrams of another size are dropped."""
        n = 0
        while n < len(frames):
            try:
                got = self.sock.recv_into(frames[n], 0, DONTWAIT | socket.MSG_TRUNC)
            except BlockingIOError:
                break
            except OSError:
                self.lost = True
                break
            if got == FRAME_SIZE:
                n += 1
        return n

    def wait_up_to(self, ms: int) -> None:
        """Set the timeout of receives that wait. (The socket is in blocking mode; all other calls use DONTWAIT.)"""
        self.sock.setblocking(True)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, ms * 1000))

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
