"""An open umad device that sends and receives batches of MADs."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from softib.errors import InputError, PeerError
from softib.iba.constants import MAD_SIZE, MgmtClass
from softib.jit import table
from softib.live.umad_client import libc
from softib.live.umad_client.abi import (
    ASKS,
    CLASS_VERSION,
    ENABLE_PKEY,
    HEAD,
    HEAD_SIZE,
    OLD_HEAD_SIZE,
    REGISTER_AGENT,
    registered_id,
    registration,
)
from softib.live.umad_client.devices import UmadDevice
from softib.live.umad_client.kernels import (
    DONE,
    FD,
    FULL,
    NO_AGENT,
    RECEIVED,
    SENT,
    UNWRITTEN,
    compose,
    exchange,
    parse,
)
from softib.live.umad_client.manager_on_port import second_manager
from softib.mad.batch import COLUMNS, MadBatch, batch_of, mad_columns

__all__ = ["WIRE_WINDOW", "UmadPort"]

ROWS = 4096
"""Number of messages that are composed or read together."""
WIRE_WINDOW = 8
"""Number of requests on the wire at a time. OpenSM's ``max_wire_smps`` is 4; a datagram socket of
stock ibsim holds ten."""
PATIENCE_MS, SIMULATOR_PATIENCE_MS = 5, 250
"""Time without an arriving MAD after which outstanding requests are no longer awaited, and the same under stock ibsim.
Stock ibsim returns requests that it cannot answer. So if nothing arrives for this time, it does not run, or both sides
have filled each other's queues (ten datagrams) and wait forever."""
LONGEST = 1 << 28
REOPEN_S = 5.0
"""Time limit for the release of a closed issm descriptor, when a manager sets IsSM again."""
WIRE_ERRORS = (errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENOMEM)
"""Errors that concern one write and not the device: the TransactionID is that of an outstanding request (EINVAL), or
there is no address handle."""

Wire: Any = table(
    "Wire", ["out", "out_dwords", "sizes", "awaits", "inbox", "in_dwords", "state", "addresses", "pollfd"]
)
"""``out``, ``inbox`` uint8[n, 320] messages (``…dwords`` the same as uint32[n, 80]), ``sizes``
int64[n] bytes to write, ``awaits`` uint8[n], ``state`` int64[4]
(:mod:`softib.live.umad_client.kernels`), ``addresses`` uint64[3] of out, inbox and pollfd,
``pollfd`` int32[2] (``struct pollfd``)."""


def _wire(fd: int) -> Any:
    out, inbox = np.zeros((2, ROWS, HEAD_SIZE + MAD_SIZE), np.uint8)
    pollfd, state = np.zeros(2, np.int32), np.zeros(4, np.int64)
    state[FD] = fd
    addresses = np.array([out.ctypes.data, inbox.ctypes.data, pollfd.ctypes.data], np.uint64)
    return Wire(
        out=out,
        out_dwords=out.view(np.uint32),
        sizes=np.zeros(ROWS, np.int64),
        awaits=np.zeros(ROWS, np.uint8),
        inbox=inbox,
        in_dwords=inbox.view(np.uint32),
        state=state,
        addresses=addresses,
        pollfd=pollfd,
    )


class UmadPort:
    """The device ``device``, open, with an agent for each class of ``classes`` (:data:`ASKS` or
    :data:`MANAGES`).

    ``timeout_ms``: time after which the driver returns an unanswered request with status TIMEOUT; it must be shorter
    than the caller's timeout, because the driver refuses a request whose TransactionID still waits for its answer.
    ``window``: requests on the wire at a time. ``sent``, ``received``, ``refused`` count MADs. Raises
    :class:`InputError` if the device cannot be opened or another program has its classes, :class:`PeerError` from every
    method after the device was removed.
    """

    def __init__(
        self, device: UmadDevice, classes: Mapping[int, int] = ASKS, timeout_ms: int = 180, window: int = WIRE_WINDOW
    ):
        self.device, self.timeout_ms = device, timeout_ms
        self.window = min(window, WIRE_WINDOW) if libc.is_stock_simulator() else window
        self.sent = self.received = self.refused = 0
        self._issm = -1
        self._patience_ms = SIMULATOR_PATIENCE_MS if libc.is_stock_simulator() else PATIENCE_MS
        try:
            self.fd = libc.open_device(device.path, os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            raise InputError(f"{device.path}: {error.strerror}; {_remedy(error)}") from None
        try:
            self.head = self._enable_pkey()
            self._agents = np.full(256, NO_AGENT, np.uint8)
            for mgmt_class, methods in classes.items():
                self._agents[mgmt_class] = self._register(mgmt_class, methods)
        except BaseException:
            libc.close(self.fd)
            raise
        self._wire, self._columns = _wire(self.fd), mad_columns(ROWS)
        self._later: deque[MadBatch] = deque()

    def _enable_pkey(self) -> int:
        """Enable the header with a P_Key index; return the header size in bytes that applies from now on. A kernel
        before 2.6.24 (ENOTTY), and libumad2sim as libibumad configures it, have the short header."""
        if libc.is_stock_simulator():
            return OLD_HEAD_SIZE
        try:
            libc.call_ioctl(self.fd, ENABLE_PKEY)
        except OSError:
            return OLD_HEAD_SIZE
        return HEAD_SIZE

    def _register(self, mgmt_class: int, methods: int) -> int:
        rmpp = int(mgmt_class == MgmtClass.SUBN_ADM)
        request = registration(mgmt_class, CLASS_VERSION.get(mgmt_class, 1), methods, rmpp)
        try:
            libc.call_ioctl(self.fd, REGISTER_AGENT, request)
        except OSError as error:
            name = MgmtClass(mgmt_class).name
            if methods and error.errno == errno.EINVAL:
                raise InputError(second_manager(self.device)) from None
            raise InputError(f"{self.device}: cannot register an agent of class {name}: {error.strerror}") from None
        return registered_id(bytes(request))

    # -- the role of a manager --

    def announce(self, repeated: bool = False) -> None:
        """Open the issm device: the port has IsSM set until :meth:`close`; ``repeated``: it is closed and opened
        again, which raises trap 144. Raises :class:`InputError` if another process holds it."""
        if repeated and self._issm >= 0:
            libc.close(self._issm)
            self._issm = -1
        if self._issm >= 0 or not self.device.issm:
            return
        # A running fabric notices a closed descriptor in the next step of its loop, the kernel at once.
        patience_end = time.monotonic() + (REOPEN_S if repeated else 0.0)
        while True:
            try:
                self._issm = libc.open_device(self.device.issm_path, os.O_RDWR | os.O_NONBLOCK)
                return
            except OSError as error:
                held = error.errno in (errno.EAGAIN, errno.EBUSY)
                if not held or time.monotonic() >= patience_end:
                    failed = f"{self.device.issm_path}: {error.strerror}; {_remedy(error)}"
                    raise InputError(second_manager(self.device) if held else failed) from None
            time.sleep(0.01)

    # -- MADs --

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        """Send a batch, and return the MADs received until its last request is answered or abandoned;
        None if there are none.

        RMPP payloads (``outbox.payload``) are written whole; the driver cuts them. Messages longer than a MAD are
        also in ``payload`` of the returned batch.
        """
        outbox = outbox if outbox is not None else MadBatch.zeros(0)
        inbox: list[MadBatch] = [*self._later]
        self._later.clear()
        for row in sorted(outbox.payload or {}):
            self._write_long(outbox, row)
        if outbox.payload:
            outbox = outbox[[i for i in range(len(outbox)) if i not in outbox.payload]]
        at = 0
        while True:
            rows = outbox[at : at + ROWS]
            self._compose(rows)
            at += len(rows)
            self._pump(len(rows), inbox)
            if at >= len(outbox):
                break
        return MadBatch.concat(inbox) if inbox else None

    def wait(self, timeout_s: float) -> bool:
        """Return whether a MAD has arrived, or arrives within ``timeout_s``."""
        return libc.poll_in(self.fd, timeout_s)

    def _compose(self, rows: MadBatch) -> None:
        q, n = self._columns, len(rows)
        q.mad[:n] = rows.mad
        for name in COLUMNS:
            getattr(q, name)[:n] = getattr(rows, name)
        compose(q, n, self._agents, self.timeout_ms, self.head, self._wire)

    def _pump(self, n: int, inbox: list[MadBatch]) -> None:
        """Exchange the first ``n`` messages of the outbox."""
        wire = self._wire
        while True:
            ended = exchange(wire, n, self.head + MAD_SIZE, self.window, self._patience_ms)
            sent, received = int(wire.state[SENT]), int(wire.state[RECEIVED])
            self.sent += sent
            self.received += received
            if received:
                parse(received, self.head, wire, self._columns)
                inbox.append(batch_of(self._columns)[:received].copy())
            if ended == DONE:
                return
            if ended == UNWRITTEN:
                self._refused(sent)
                sent += 1
            elif ended != FULL:
                self._read_special(inbox)
            wire.out[: n - sent] = wire.out[sent:n].copy()
            wire.sizes[: n - sent] = wire.sizes[sent:n].copy()
            wire.awaits[: n - sent] = wire.awaits[sent:n].copy()
            n -= sent

    def _refused(self, row: int) -> None:
        """Record the reason why the driver refused message ``row``. Raises :class:`PeerError` if the device
        was removed."""
        wire = self._wire
        try:
            libc.write(self.fd, int(wire.addresses[0]) + row * wire.out.shape[1], int(wire.sizes[row]))
            self.sent += 1
        except OSError as error:
            if error.errno not in WIRE_ERRORS:
                raise PeerError(f"{self.device}: {error.strerror}: the device was removed") from None
            self.refused += 1

    def _read_special(self, inbox: list[MadBatch]) -> None:
        """Read a message that is longer than a MAD, or raise the reason why reading fails."""
        size = HEAD_SIZE + MAD_SIZE
        while True:
            buffer = np.zeros(size, np.uint8)
            try:
                got = libc.read_into(self.fd, buffer.ctypes.data, size)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EINTR):
                    return
                length = int(buffer[: HEAD.itemsize].view(HEAD)[0]["length"])
                if error.errno != errno.ENOSPC or not size < length <= LONGEST:
                    raise PeerError(f"{self.device}: {error.strerror}: the device was removed") from None
                size = length
                continue
            if got > self.head:
                inbox.append(self._one(buffer[:got]))
            return

    def _one(self, message: np.ndarray) -> MadBatch:
        wire = self._wire
        wire.inbox[0] = 0
        n = min(len(message), wire.inbox.shape[1])
        wire.inbox[0, :n] = message[:n]
        parse(1, self.head, wire, self._columns)
        batch = batch_of(self._columns)[:1].copy()
        self.received += 1
        if len(message) - self.head > MAD_SIZE:
            batch.payload = {0: message[self.head :].tobytes()}
        return batch

    def _write_long(self, batch: MadBatch, row: int) -> None:
        assert batch.payload is not None
        self._compose(batch[row : row + 1])
        message = self._wire.out[0, : self.head].tobytes() + batch.payload[row]
        octets = np.frombuffer(message, np.uint8)
        try:
            libc.write(self.fd, octets.ctypes.data, len(octets))
            self.sent += 1
        except OSError as error:
            if error.errno not in WIRE_ERRORS:
                raise PeerError(f"{self.device}: {error.strerror}: the device was removed") from None
            self.refused += 1

    def close(self) -> None:
        """Close both devices. Registrations end with them."""
        for fd in (self._issm, self.fd):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    libc.close(fd)
        self._issm = self.fd = -1


def _remedy(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "be root, or give your group access to this device (udev)"
    return "is the module ib_umad loaded?"
