"""A queue of the target: one connection and the thread that serves it."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

import numpy as np

from softib.errors import PeerError
from softib.ulp.nvmeof.codes import Admin, Fabrics, Status
from softib.ulp.nvmeof.connections import ConnectionRequest
from softib.ulp.nvmeof.rdma import QueuePair
from softib.ulp.nvmeof.structures import CM_ACCEPT, COMMAND, ERROR_ENTRY, IN_CAPSULE, one
from softib.ulp.nvmeof.target import queue_layout as layout
from softib.ulp.nvmeof.target.capture import CapsuleCapture
from softib.ulp.nvmeof.target.controller import Controller, Controllers, Reply, refuse
from softib.ulp.nvmeof.target.queue_kernels import BROKEN, CALLED, post_all, respond, serve
from softib.ulp.nvmeof.target.queue_kernels import COMMAND as FOR_PYTHON
from softib.ulp.nvmeof.target.subsystem import TargetPort

__all__ = ["TargetQueue"]

SLEEP_MS = 1000
TO_TARGET = 1
"""The two low bits of the opcode of a command with data from the host."""


class TargetQueue:
    """A queue of the target, on a connection that a host has requested. Raises :class:`PeerError` if the connection
    fails. ``ended`` is called in the queue's thread when the queue has ended."""

    def __init__(
        self,
        request: ConnectionRequest,
        qid: int,
        entries: int,
        controllers: Controllers,
        port: TargetPort,
        ended: Callable[[TargetQueue], None],
        capture: CapsuleCapture | None,
    ):
        self.qid, self.entries, self.port = qid, entries, port
        self.controllers = controllers
        self.controller: Controller | None = None
        self._ended, self._ending, self._capture = ended, False, capture
        self.pair = QueuePair(request.id, 4 * entries, entries)
        try:
            shared = controllers.subsystem.shared_columns(port)
            self.rings, self.columns, self._memory, self._scratch = layout.columns_of(
                self.pair, entries, shared, capture is not None
            )
            if not post_all(self.rings, self.columns):
                raise PeerError("cannot post receives")
            self.pair.accept(one(CM_ACCEPT, crqsize=entries).tobytes(), request)
            if capture is not None:
                self._path = self.pair.path()
                numbers = [layout.MTU, layout.PSN_IN, layout.PSN_OUT]
                self.columns.n[numbers] = self._path.mtu, self._path.receives_from, self._path.sends_from
        except PeerError:
            self.pair.close()
            raise
        self.address = request.address
        self.since_s = time.monotonic()
        self.started = False
        self._pending = np.zeros(2, np.int64)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name=f"queue {qid}", daemon=True)

    def start(self) -> None:
        """Start the thread that serves the queue."""
        self.started = True
        self._thread.start()

    def call(self, ending: bool = False) -> None:
        """Make the queue's thread end (``ending``), or make it send due events. Any thread may call this."""
        self._ending = self._ending or ending
        self.columns.n[layout.STOP] = 1
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Wait for the queue's thread to end, and destroy the queue's resources."""
        if self._thread.is_alive():
            self._thread.join()
        self.pair.close()
        os.close(self._wake)

    def newest_error(self) -> tuple[int, bytes]:
        """Return the newest error as (count of this queue, entry of the log page)."""
        count, cid, status, lba, nsid = (int(v) for v in self.columns.error64)
        entry = one(ERROR_ENTRY, count=count, sqid=self.qid, cid=cid, status=status << 1 & 0xFFFF, location=0xFFFF)
        entry["lba"], entry["nsid"] = np.int64(lba).astype(np.uint64), nsid & 0xFFFFFFFF
        return count, entry.tobytes()

    def counts(self) -> np.ndarray:
        """Return the totals of the queue."""
        return self.columns.done.copy()

    # -- the thread --

    def _run(self) -> None:
        try:
            while not self._ending and self._step():
                pass
        except PeerError:
            pass
        finally:
            self._write_trace()
            self.pair.disconnect()
            if self.controller is not None:
                self.controllers.leave(self.controller, self.qid)
            self._ended(self)

    def _step(self) -> bool:
        """Serve until an event needs Python, and handle it. Return False if the connection has ended."""
        rings, columns = self.rings, self.columns
        result = serve(rings, columns, self._pending)
        self._write_trace()
        if result == BROKEN:
            return False
        if result == FOR_PYTHON:
            return self._execute(int(columns.n[layout.SLOT]))
        if result == CALLED:
            columns.n[layout.STOP] = 0
            return self._send_notices()
        if not self.pair.armed:
            self.pair.arm()  # completions must be checked again after this
            return True
        waits = select.poll()
        for fd in (self.pair.channel_fd, self._wake):
            waits.register(fd, select.POLLIN)
        for fd, _ in waits.poll(SLEEP_MS):
            if fd == self._wake:
                os.eventfd_read(fd)
            else:
                self.pair.take_events()
        return True

    def _write_trace(self) -> None:
        count = int(self.columns.n[layout.TRACED])
        if count and self._capture is not None:
            self._capture.write(self.columns.trace[:count], self._path)
            self.columns.n[layout.TRACED] = 0

    def _execute(self, slot: int) -> bool:
        command = self.columns.capsule8[slot, : COMMAND.itemsize].copy().view(COMMAND)[0]
        data = self._data(command, slot)
        reply: Reply | None
        if self.controller is None:
            reply = self._connect(command, data)
        elif self.qid and int(command["opcode"]) == Admin.FABRICS:
            reply = refuse(Status.COMMAND_SEQUENCE_ERROR)
        else:
            reply = self.controller.execute(command, slot, time.monotonic())
        if reply is None:
            self._release_buffer(slot)
            return self._send_notices()
        return self._answer(slot, command, reply) and self._send_notices()

    def _connect(self, command: np.void, data: bytes) -> Reply:
        if int(command["opcode"]) != Admin.FABRICS or int(command["fctype"]) != Fabrics.CONNECT:
            return refuse(Status.COMMAND_SEQUENCE_ERROR)
        reply, controller = self.controllers.connect(command, data, self.port, self.qid, self.entries, time.monotonic())
        if controller is not None:
            self.controller = controller
            if self.qid:
                controller.queues[self.qid] = self
            self.columns.n[layout.ADMIN] = self.qid == 0
            self.columns.n[layout.WAIT] = layout.SPINS if self.qid else 1
        return reply

    def _data(self, command: np.void, slot: int) -> bytes:
        """Return the data that the host sent with a command."""
        opcode = int(command["fctype"] if command["opcode"] == Admin.FABRICS else command["opcode"])
        if opcode & 3 != TO_TARGET:
            return b""
        if command["kind"] == IN_CAPSULE:
            begin = 64 + min(int(command["address"]), layout.CAPSULE)
            end = min(begin + int(command["length"]), int(self.columns.received[slot]))
            return self.columns.capsule8[slot, begin:end].tobytes()
        return self._buffer(slot)[: int(command["length"]) & 0xFFFFFF].tobytes()

    def _buffer(self, slot: int) -> np.ndarray:
        begin = self.entries * layout.CAPSULE + int(self.columns.slot_buffer[slot]) * layout.MAX_DATA
        buffer: np.ndarray = self._memory.data[begin : begin + layout.MAX_DATA]
        return buffer

    def _release_buffer(self, slot: int) -> None:
        columns = self.columns
        columns.free[columns.n[layout.FREE]] = columns.slot_buffer[slot]
        columns.n[layout.FREE] += 1
        columns.slot_buffer[slot] = -1

    def _answer(self, slot: int, command: np.void, reply: Reply) -> bool:
        length = 0
        if reply.data:
            if command["kind"] == IN_CAPSULE:
                reply = refuse(Status.SGL_TYPE_INVALID)
            else:
                length = min(len(reply.data), int(command["length"]) & 0xFFFFFF)
                self._buffer(slot)[:length] = np.frombuffer(reply.data, np.uint8, length)
        return bool(respond(self.rings, self.columns, slot, reply.status, reply.result, length))

    def _send_notices(self) -> bool:
        if self.qid or self.controller is None:
            return True
        due = self.controller.due_events()
        return all(respond(self.rings, self.columns, slot, 0, result, 0) for slot, result in due)
