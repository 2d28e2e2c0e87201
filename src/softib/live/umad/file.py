"""One open umad device of a program under softib's preload library: the state that a kernel keeps for it.

The descriptor of the device in the program is a connection to the daemon. So the daemon notices at once when the
program closes the device or dies.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import RESPONSE_BIT, Method
from softib.iba.smp import METHOD_AT, TID_AT, MadHeader
from softib.live.mad_router import BATCH
from softib.live.umad.agents import AgentTable
from softib.live.umad.grh import ROUTE, pkey_index_at
from softib.live.umad.kernels import AGENT_AT, PKEY_INDEX_AT, write_messages
from softib.live.umad.wire import HEAD_SIZE, MESSAGE_SIZE
from softib.live.unix_server import SendQueue
from softib.mad.batch import MadBatch

__all__ = ["Ancillary", "IssmFile", "PendingRequest", "RmppPayload", "UmadFile", "tid_of"]

TRAP_REPRESS = int(Method.TRAP_REPRESS)
"""The method of the answer to a trap. It has no response bit, but a kernel treats it as a response."""
TIMED_OUT = errno.ETIMEDOUT
QUEUE_LIMIT = 200_000
"""Maximum number of messages that wait for a program that does not read. Further messages are dropped, as in the
kernel."""


@dataclass(frozen=True)
class RmppPayload:
    """The data of an RMPP message: a descriptor of a file with the whole MAD, and its number of bytes."""

    fd: int
    octets: int

    def keep(self) -> RmppPayload:
        """Return a copy with a separate descriptor."""
        return RmppPayload(os.dup(self.fd), self.octets)

    def drop(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


@dataclass(frozen=True)
class Ancillary:
    """Further data of the program's message that is being handled: the program's ``port`` (None: no program sent
    it), the rest of an RMPP message, and the header's GRH fields at the receiver (``forward_route``) and on an
    agent's answer (``return_route``), 24 bytes each."""

    port: int | None = None
    payload: RmppPayload | None = None
    forward_route: bytes | None = None
    return_route: bytes | None = None


@dataclass
class PendingRequest:
    """A request that waits for its answer: the message as written, and the number of times that it may be sent
    again."""

    message: bytes
    payload: RmppPayload | None
    timeout_ps: int
    tries: int
    deadline_ps: int


def tid_of(mad: np.ndarray) -> int:
    """Return the TransactionID of a MAD."""
    return int.from_bytes(mad[TID_AT : TID_AT + 8].tobytes(), "big")


class UmadFile:
    """A station (see :class:`softib.live.mad_router.Station`) behind ``sock``. ``queue``: messages that did not fit
    into the socket yet. ``pending``: requests without an answer, by TID. ``ancillary()`` returns the :class:`Ancillary`
    of the message that is being handled."""

    issm = False

    def __init__(
        self,
        fabric: Fabric,
        number: int,
        port: int,
        sock: socket.socket,
        name: str,
        pid: int,
        selector: selectors.BaseSelector,
        ancillary: Callable[[], Ancillary],
    ):
        self.number, self.port, self.sock, self.name, self.pid = number, port, sock, name, pid
        self.fabric, self.ancillary = fabric, ancillary
        self.hung_up = False
        self.classes = np.zeros(256, np.uint8)
        self.table = AgentTable()
        self.queue = SendQueue(sock, selector, QUEUE_LIMIT)
        self.pending: dict[int, PendingRequest] = {}
        self.announced = 0
        """Number of RMPP messages that were announced but have not arrived yet."""
        self.answered: list[int] | None = None
        """While this file's requests are handled: the TIDs of requests that were answered at once."""
        self._out = np.zeros((BATCH, MESSAGE_SIZE), np.uint8)
        self._dwords = self._out.view(np.uint32)
        self._views = [row.data for row in self._out]

    @property
    def closed(self) -> bool:
        """Return whether the program has closed the file or no longer exists."""
        return self.hung_up or self.queue.broken

    # -- as a station --

    def takes(self, mad: np.ndarray) -> bool:
        """Return whether the MAD is an answer to a pending request, or an unsolicited MAD for a registered agent."""
        if _answers(mad):
            return tid_of(mad) in self.pending
        return self.table.taker(mad) is not None

    def deliver(self, batch: MadBatch) -> None:
        """Deliver MADs to the program. The program's requests that are returned as undeliverable are not delivered:
        they wait until they time out."""
        if self.answered is not None:
            if batch.status.any():
                batch = batch[batch.status == 0]
            methods = batch.mad[:, METHOD_AT]
            answers = (methods >= RESPONSE_BIT) | (methods == TRAP_REPRESS)  # not traps
            self.answered.extend(MadHeader.tid.get(batch.mad[answers]).tolist())
        for at in range(0, len(batch), BATCH):
            self._hand_over(batch[at : at + BATCH])

    def deliver_long(self, batch: MadBatch, message: bytes) -> None:
        """Deliver one long message that this process created; ``batch`` has one row with its first bytes.

        An agent that implements RMPP itself, or does not use it, gets only the first segment.
        """
        if not self.table.kernel_rmpp[batch.mad[0, AGENT_AT] & 31]:
            self.deliver(batch)
            return
        fd = os.memfd_create("softib-rmpp", os.MFD_CLOEXEC)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(message)
            self._hand_over(batch, RmppPayload(fd, len(message)))
        finally:
            os.close(fd)

    def _hand_over(self, batch: MadBatch, payload: RmppPayload | None = None) -> None:
        n = len(batch)
        if not n:
            return
        columns = batch.slid, batch.sqp, batch.sl, batch.pkey_index, batch.status
        write_messages(batch.mad, *columns, self.table.kernel_rmpp, self._out, self._dwords)
        ancillary = self.ancillary()
        to_requester = self.answered is not None
        route = ancillary.return_route if to_requester else ancillary.forward_route
        if payload is None and not to_requester:
            payload = ancillary.payload
        for i in range(n):
            mad = batch.mad[i]
            if _answers(mad):
                if self._dwords[i, 0] not in self.table.agents:
                    continue  # the agent was unregistered meanwhile
                if self.answered is None:
                    self._forget(tid_of(mad))
            else:
                taker = self.table.taker(mad)
                if taker is None:
                    continue
                self._dwords[i, 0] = taker
            if not to_requester and ancillary.port is not None:
                index = pkey_index_at(self.fabric, ancillary.port, int(batch.pkey_index[i]), self.port)
                self._dwords[i, PKEY_INDEX_AT // 4] = index
            if route is not None:
                self._out[i, ROUTE] = np.frombuffer(route, np.uint8)
            if payload is not None:
                self._dwords[i, 4] = HEAD_SIZE + payload.octets
                self.queue.send(self._views[i])  # the announcement: see umad.h
                self.queue.send(self._views[i], payload.fd)
            else:
                self.queue.send(self._views[i])

    def _forget(self, tid: int) -> None:
        done = self.pending.pop(tid, None)
        if done is not None and done.payload is not None:
            done.payload.drop()

    # -- the end of requests and of the file --

    def time_out(self, tid: int, waited: PendingRequest) -> None:
        """Return the request ``tid`` to the program with ETIMEDOUT."""
        message = np.frombuffer(waited.message.ljust(MESSAGE_SIZE, b"\0"), np.uint8).copy()
        message[:HEAD_SIZE].view(np.uint32)[1] = TIMED_OUT
        message[HEAD_SIZE + 8 : HEAD_SIZE + 16] = np.frombuffer(tid.to_bytes(8, "big"), np.uint8)
        self.queue.send(message.tobytes())

    def close(self) -> None:
        """Close the socket and drop waiting messages."""
        self.sock.close()
        self.queue.clear()
        for tid in list(self.pending):
            self._forget(tid)


def _answers(mad: np.ndarray) -> bool:
    """Return whether the MAD is the answer to a message of a program. A TrapRepress answers its
    trap, as in the kernel."""
    return bool(mad[METHOD_AT] & RESPONSE_BIT) or int(mad[METHOD_AT]) == Method.TRAP_REPRESS


class IssmFile:
    """An open issm device. Its port has IsSM set as long as the device is open. Unlike a umad file, it receives no
    MADs."""

    issm = True
    queue: tuple[()] = ()

    def __init__(self, number: int, port: int, sock: socket.socket, name: str, pid: int):
        self.number, self.port, self.sock, self.name, self.pid = number, port, sock, name, pid
        self.classes = np.zeros(256, np.uint8)
        self.closed = False

    def takes(self, mad: np.ndarray) -> bool:
        """Return False: an issm file accepts no MADs."""
        return False

    def deliver(self, batch: MadBatch) -> None:
        """Do nothing: no MADs are delivered to it."""

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
