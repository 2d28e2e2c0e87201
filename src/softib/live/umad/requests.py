"""Handling of the MADs that programs write to their umad devices: they are answered, forwarded, or kept until they time
out.

Most of the work never reaches Python: :func:`softib.live.umad.kernels.umad_pump` receives, answers
and sends while one program sends. The rest is handled here: RMPP messages, GRHs, and requests that
get no answer at once.
"""

from __future__ import annotations

import heapq
import itertools
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from softib.live.clock import clock_ps
from softib.live.exchange_kernels import SENT
from softib.live.ibsim.server import PUMP_WAIT_MS, ROUNDS
from softib.live.mad_router import BATCH, PUMP_ROUNDS, PUMP_ROUNDS_ALONE, MadRouter
from softib.live.umad.agents import AGENTS
from softib.live.umad.file import Ancillary, IssmFile, PendingRequest, RmppPayload, UmadFile, tid_of
from softib.live.umad.grh import routes_of
from softib.live.umad.kernels import CLOSED, LEFT, SPECIAL, read_messages, umad_pump, write_messages
from softib.live.umad.wire import HEAD_SIZE, MESSAGE_SIZE, buffers_of, constant, types
from softib.live.unix_server import ANCILLARY_SIZE, descriptors

__all__ = ["UmadRequests"]

LEAST_MESSAGE = HEAD_SIZE + 36
MS_PS = 1_000_000_000
GRH_PRESENT = 32
NOTHING = Ancillary()


class UmadRequests:
    """Reads the open ``files`` (by number) and keeps the timers of requests. :meth:`tick` must be called after the time
    that :meth:`wait_s` returns. ``ancillary``: further data of the message that is being handled.
    """

    def __init__(self, router: MadRouter, files: Mapping[int, object]):
        self.router, self.files = router, files
        self.ancillary = NOTHING
        self._timers: list[tuple[int, int, int, int]] = []
        self._order = itertools.count()
        self._buffers = buffers_of()
        self._in, self._in_dwords = self._buffers.messages, self._buffers.dwords
        self._sizes, self._awaits = self._buffers.sizes, self._buffers.awaits
        self._rows = [row.data for row in self._in]
        self._warm()

    def _warm(self) -> None:
        """Compile now, not while the first program waits."""
        agents, a = np.zeros((3, AGENTS), np.uint8), self.router.answers
        self._read_messages(0, agents[0])
        write_messages(a.mad[:0], a.slid, a.sqp, a.sl, a.pkey_index, a.status, agents[0], self._in, self._in_dwords)
        if self.router.pumps:
            self._umad_pump(agents, np.zeros(256, np.uint8), 0, 0)

    def _read_messages(self, n: int, agent_qp: np.ndarray) -> None:
        read_messages(self._in, self._in_dwords, self._sizes, n, agent_qp, self.router.requests, self._awaits)

    def _umad_pump(self, agents: np.ndarray, classes: np.ndarray, now_ps: int, rounds: int) -> int:
        r = self.router
        return int(
            umad_pump(
                r.plane.tables,
                r.cells,
                r.requests,
                r.answers,
                r.exchange,
                self._buffers,
                agents,
                classes,
                now_ps,
                rounds,
            )
        )

    def adopt(self, file: UmadFile) -> None:
        """Set a short timeout for blocking receives on this file's socket; all other calls use DONTWAIT."""
        file.sock.setblocking(True)
        wait = struct.pack("@ll", 0, PUMP_WAIT_MS * 1000)
        file.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)

    # -- reading --

    def read(self, file: UmadFile) -> None:
        """Handle the messages that ``file``'s program has written, up to a limit, so that other programs do not wait
        too long."""
        if self.router.pumps and not file.queue and not file.announced and self._pump(file) not in (SPECIAL, LEFT):
            return  # more messages often follow one for another program: send them together
        for _ in range(ROUNDS):
            n = 0
            while n < BATCH:
                size, payload = self._receive(file, n)
                if size < 0:
                    break
                if self._special(file, n, size, payload):
                    n = 0
                elif size >= LEAST_MESSAGE and self._in_dwords[n, 4] <= MESSAGE_SIZE:
                    self._sizes[n] = size
                    n += 1
            self._handle(file, n)
            if n < BATCH or file.closed:
                return

    def _pump(self, file: UmadFile) -> int:
        """Run :func:`umad_pump` and return its result. If it stops at a special message, handle that."""
        router = self.router
        now_ps = clock_ps()
        router.counts[:] = 0
        # A manager's issm file is a station too but sends no MADs, so stock OpenSM counts as the only program. (A
        # bring-up of 20,594 MADs: 13 steps of the loop instead of 163, and 6.7 us of CPU a MAD instead of 7.3.)
        others = any(s is not file and not isinstance(s, IssmFile) for s in router.stations.values())
        flags = 0 if router.alone else socket.MSG_DONTWAIT
        self._buffers.file[:] = file.port, file.number, file.sock.fileno(), flags
        rounds = PUMP_ROUNDS if others else PUMP_ROUNDS_ALONE
        ended = self._umad_pump(file.table.columns, file.classes, now_ps, rounds)
        file.hung_up |= ended == CLOSED
        if ended == LEFT:
            self._finish(file, 1, now_ps)
        else:
            router.finish(file, now_ps)
        if ended == SPECIAL:
            self._special(file, 0, int(self._sizes[0]), None)
        return ended

    def _special(self, file: UmadFile, row: int, size: int, payload: RmppPayload | None) -> bool:
        """Handle the messages in the rows before ``row``, and then the message in ``row``, which must be handled
        alone."""
        if payload is None and self._in_dwords[row, 4] > MESSAGE_SIZE:
            file.announced += 1  # the next message carries the complete RMPP message: see umad.h
            return False
        if payload is None and (size < LEAST_MESSAGE or not self._in[row, GRH_PRESENT]):
            return False
        self._handle(file, row)
        self._in[0] = self._in[row]
        self._sizes[0] = size
        file.announced = max(0, file.announced - (payload is not None))
        self._handle(file, 1, payload)
        if payload is not None:
            payload.drop()
        return True

    def _receive(self, file: UmadFile, row: int) -> tuple[int, RmppPayload | None]:
        """Read the next message into ``row``. Return its number of bytes, -1 if there is none, and its payload, which
        the caller must drop."""
        flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
        try:
            size, control, _, _ = file.sock.recvmsg_into([self._rows[row]], ANCILLARY_SIZE, flags)
        except BlockingIOError:
            return -1, None
        except OSError:
            size, control = 0, []
        if not size:
            file.hung_up = True
            return -1, None
        fds = descriptors(control)
        octets = int(self._in_dwords[row, 4]) - HEAD_SIZE
        wanted = 1 if size == MESSAGE_SIZE and 256 < octets <= constant("LONGEST") else 0
        for fd in fds[wanted:]:
            os.close(fd)
        if not file.table.known[self._in_dwords[row, 0] & 31] or self._in_dwords[row, 0] > 31:
            for fd in fds[:wanted]:
                os.close(fd)
            return 0, None  # no such agent is registered: the library would have refused
        return size, RmppPayload(fds[0], octets) if fds[:wanted] else None

    # -- handling --

    def _handle(self, file: UmadFile, n: int, payload: RmppPayload | None = None) -> None:
        """Send the first ``n`` messages in ``_in`` into the fabric."""
        if not n:
            return
        router = self.router
        self._read_messages(n, file.table.qp)
        ancillary = Ancillary(file.port, payload)
        if self._in[0, GRH_PRESENT]:  # a message with a GRH is handled alone
            forward_route, return_route = routes_of(router.fabric, file.port, self._in[0])
            if forward_route is None:  # the port at that LID does not have the GID, so it drops the packet
                self._keep_unanswered(file, n, router.requests.mad[:n], [], payload, clock_ps())
                return
            ancillary = replace(ancillary, forward_route=forward_route, return_route=return_route)
        self.ancillary = ancillary
        now_ps = clock_ps()
        if not router.answer(file, n, now_ps):  # an exception: the requests were returned as timed out
            self.ancillary = NOTHING
            return
        self._finish(file, n, now_ps, payload)

    def _finish(self, file: UmadFile, n: int, now_ps: int, payload: RmppPayload | None = None) -> None:
        """Do the work that the kernels have left, and keep the unanswered requests."""
        router = self.router
        requests = router.requests.mad[:n].copy() if self._awaits[:n].any() else None
        if self.ancillary is NOTHING:
            self.ancillary = Ancillary(file.port)
        file.answered, sent = [], int(router.counts[SENT])
        try:
            router.finish(file, now_ps)
        finally:
            answered, file.answered, self.ancillary = file.answered, None, NOTHING
        if requests is not None and len(answered) + sent < n:
            self._keep_unanswered(file, n, requests, answered, payload, now_ps)

    # -- time --

    def _keep_unanswered(
        self,
        file: UmadFile,
        n: int,
        requests: np.ndarray,
        answered: list[int],
        payload: RmppPayload | None,
        now_ps: int,
    ) -> None:
        done = set(answered)
        for row in np.flatnonzero(self._awaits[:n]).tolist():
            tid = tid_of(requests[row]) & ~(0xFFFF << 48) | file.number << 48
            if tid not in done:
                self._keep(file, tid, self._in[row, : int(self._sizes[row])].tobytes(), payload, now_ps)

    def _keep(self, file: UmadFile, tid: int, message: bytes, payload: RmppPayload | None, now_ps: int) -> None:
        """Record that ``message`` waits for its answer."""
        old = file.pending.pop(tid, None)
        if old is not None and old.payload is not None:
            old.payload.drop()
        head = np.frombuffer(message, types()["softib_umad_head"], 1)[0]
        timeout_ps = int(head["timeout_ms"]) * MS_PS
        waits = PendingRequest(
            message, payload.keep() if payload else None, timeout_ps, int(head["retries"]), now_ps + timeout_ps
        )
        file.pending[tid] = waits
        heapq.heappush(self._timers, (waits.deadline_ps, next(self._order), file.number, tid))

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until the next request times out; infinity if none is pending."""
        return max(0.0, (self._timers[0][0] - now_ps) / 1e12) if self._timers else float("inf")

    def tick(self, now_ps: int) -> None:
        """Send requests again, or return those that have timed out."""
        while self._timers and self._timers[0][0] <= now_ps:
            deadline_ps, _, number, tid = heapq.heappop(self._timers)
            file = self.files.get(number)
            waits = file.pending.get(tid) if isinstance(file, UmadFile) else None
            if waits is None or waits.deadline_ps != deadline_ps or not isinstance(file, UmadFile):
                continue  # the request was answered meanwhile
            del file.pending[tid]
            if waits.tries:
                self._retry(file, tid, waits, now_ps)
            else:
                file.time_out(tid, waits)
            if waits.payload is not None:
                waits.payload.drop()

    def _retry(self, file: UmadFile, tid: int, waits: PendingRequest, now_ps: int) -> None:
        self._in[0, : len(waits.message)] = np.frombuffer(waits.message, np.uint8)
        self._sizes[0] = len(waits.message)
        self._handle(file, 1, waits.payload)
        pending = file.pending.get(tid)
        if pending is not None:
            pending.tries = waits.tries - 1
