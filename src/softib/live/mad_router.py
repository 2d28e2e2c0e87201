"""Routing of programs' MADs. They go to the fabric's agents, to another program on the addressed port, or back to the
sender with status 110.

This module uses no sockets and no protocol: its callers pass in stations (:mod:`~softib.live.station`), which exchange
MADs as :class:`~softib.mad.batch.MadBatch`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.agents.kernels.app_drops import HIGH
from softib.agents.kernels.app_traffic import fold_cells
from softib.agents.plane import AgentPlane, Delivery
from softib.agents.rmpp_segments import RmppSegments
from softib.agents.trap_queue import TrapQueue
from softib.iba.constants import LID_PERMISSIVE, Method, MgmtClass
from softib.iba.smp import CLASS_AT, METHOD_AT, TID_AT, PortInfo
from softib.live.clock import clock_ps
from softib.live.crash_log import ReportBug, raised
from softib.live.exchange_kernels import BATCH, LAST, RECEIVED, REPLIES, answer, exchange_of, replies_of
from softib.live.station import Forwarded, ForwardedRequests, Station, Stations, is_response
from softib.live.verbs.traffic import no_cells
from softib.mad.batch import MadBatch, SendStatus, batch_of

if TYPE_CHECKING:
    from softib.live.mad_capture import MadCapture

__all__ = ["BATCH", "PUMP_ROUNDS", "PUMP_ROUNDS_ALONE", "MadRouter"]

PUMP_ROUNDS, PUMP_ROUNDS_ALONE = 128, 2048
"""Number of batches of one client that are handled before other clients are served, and the same if there is only one
client. (A step of the loop costs as much as five MADs.)"""
TRAPS_A_STEP = 64
"""Maximum number of traps sent in one step, so that programs do not wait for the traps of thousands of devices."""


class MadRouter:
    """Carries MADs between ``plane`` (the fabric's agents) and the stations on its ports. ``epoch`` counts changes of
    the configuration.

    A server puts a program's MADs into ``requests`` (:data:`~softib.mad.batch.MadColumns`) and
    calls :meth:`handle`, or its own kernel around :func:`softib.live.exchange_kernels.answer`,
    and :meth:`finish` after it.
    """

    def __init__(self, plane: AgentPlane, cells: Any = None):
        """``cells``: the traffic counts of applications (:class:`softib.live.verbs.traffic.Cells`; None: there
        are none)."""
        self.plane, self.fabric = plane, plane.fabric
        self.cells = no_cells() if cells is None else cells
        self.report_bug: ReportBug = raised
        """Called when softib's code fails. The requests that were being handled come back to their senders."""
        self.stations = Stations()
        self.epoch = 0
        self.answered = self.bounced = self.forwarded = 0
        self.alone = False
        """Whether only one socket is ready. Its server may then wait in the kernel for the next request."""
        self.waiting = ForwardedRequests()
        self.trap_queue = TrapQueue(plane)
        self.segments = RmppSegments(plane)
        self.requests, self.answers, self.exchange = exchange_of()
        self.counts = self.exchange.counts
        self._sent, self._answered = batch_of(self.requests), batch_of(self.answers)
        self.pumps = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
        self.tap: Callable[[int, MadBatch, MadBatch], None] | None = None
        """Called with each batch of a program: its port, its MADs and the replies (:class:`~.pcap.MadCapture`)."""
        self._answer(0, 0, 0, 0, np.zeros(256, np.uint8))  # compiles now, not while the first program waits

    def _answer(self, port: int, number: int, now_ps: int, n: int, classes: np.ndarray) -> None:
        answer(
            self.plane.tables, self.cells, self.requests, self.answers, self.exchange, port, number, now_ps, n, classes
        )

    # -- stations --

    def join(self, station: Station) -> None:
        """Deliver MADs for the port of ``station`` to it."""
        self.stations[station.number] = station
        self.announce(station.port)

    def leave(self, station: Station) -> None:
        """Remove ``station``. A port without a manager no longer has IsSM set."""
        self.stations.pop(station.number, None)
        self._give_back_all(self.waiting.take_of(station.number))
        self.announce(station.port)

    def announce(self, port: int) -> None:
        """Update CapabilityMask.IsSM of ``port`` (IBA 14.2.5.6), which a host's driver sets when a manager runs on the
        port. A change raises trap 144, which informs the master."""
        before = self.fabric.port_info[port].tobytes()
        now_ps = clock_ps()
        self.plane.set_is_sm(port, self.stations.has_manager(port), now_ps)
        if self.fabric.port_info[port].tobytes() != before:
            self.epoch += 1
            self.traps(now_ps)

    # -- MADs of programs --

    def handle(self, sender: Station, n: int, now_ps: int) -> None:
        """Answer, forward or return the first ``n`` of ``requests``, which ``sender`` sent."""
        if self.answer(sender, n, now_ps):
            self.finish(sender, now_ps)

    def answer(self, sender: Station, n: int, now_ps: int) -> bool:
        """Run the first part of :meth:`handle`, before :meth:`finish`. Return False if an exception was raised; it has
        been reported."""
        self.counts[:] = 0
        try:
            self._answer(sender.port, sender.number, now_ps, n, sender.classes)
        except Exception:
            self.report_bug("answering requests")
            self.give_back(sender, range(n))
            return False
        self.counts[RECEIVED] = n
        if self.tap is not None:
            try:
                self.tap(
                    sender.port,
                    self._sent[:n],
                    replies_of(self.exchange, self._sent, self._answered, 0, int(self.counts[REPLIES])),
                )
            except Exception:
                self.report_bug("capturing MADs")
        return True

    def capture(self, writer: MadCapture) -> None:
        """Pass every MAD to ``writer``; programs' requests no longer bypass Python."""
        self.pumps, self.tap, self.plane.tap = False, writer.exchange, writer.batch

    def pumped(self, sender: Station, pump: Callable[[int], None], now_ps: int) -> None:
        """Let ``pump`` receive, answer and send repeatedly in one compiled call, for at most the
        number of batches that is passed to it, and then finish."""
        self.counts[:] = 0
        try:
            pump(PUMP_ROUNDS if len(self.stations) > 1 else PUMP_ROUNDS_ALONE)
        except Exception:
            self.report_bug("answering requests")
            self.give_back(sender, range(int(self.counts[LAST])))  # the batches before it were answered
        else:
            self.finish(sender, now_ps)

    def give_back(self, sender: Station, rows: Iterable[int]) -> None:
        """Send the requests among ``rows`` of ``requests`` back to their senders as timed out, so that no sender
        waits for a request that failed."""
        for row in rows:
            back = self._sent[row : row + 1].copy()
            if not is_response(back.mad[0]):
                back.status[:] = SendStatus.TIMEOUT
                self.bounced += 1
                sender.deliver(back)

    def finish(self, sender: Station, now_ps: int) -> None:
        """Do the work that the kernels have left after a batch, as ``counts`` shows."""
        replies, forwards, sets, bounces, sent, received, _ = self.counts.tolist()
        self.answered += max(received, replies) - bounces
        self.bounced += bounces
        self.epoch += bool(sets)
        if replies > sent:
            sender.deliver(replies_of(self.exchange, self._sent, self._answered, sent, replies))
        if forwards:
            self._forward_all(sender, forwards)
        if self.plane.tables.notice_count[0]:
            self.traps(now_ps)

    def _forward_all(self, sender: Station, n: int) -> None:
        x = self.exchange
        rows, ports = x.forward_row[:n].copy(), x.forward_port[:n].tolist()
        requests, arrived = self._sent[rows], self._sent[rows]
        arrived.mad = self.answers.mad[x.forward_answer[:n]]
        lid = int(PortInfo.lid.get(self.fabric.port_info[sender.port]))
        arrived.slid[:] = np.where(arrived.dlid == LID_PERMISSIVE, LID_PERMISSIVE, lid)
        for i, port in enumerate(ports):
            mad = arrived.mad[i]
            if self._represses(mad, port):
                continue
            try:
                target = self.stations.target(mad, port, sender)
                if target is not None:
                    target.deliver(arrived[i : i + 1])
                    octets = self.segments.octets() if i == 0 else 0
                    self.segments.count(mad, octets, int(arrived.dlid[i]), int(arrived.sl[i]), sender.port, port)
            except Exception:
                self.report_bug("delivering a MAD")
                target = None
            if target is None:
                self.give_back(sender, (int(rows[i]),))
            else:
                self.forwarded += 1
                self._remember(mad, requests[i : i + 1], sender, target)

    def _remember(self, handed: np.ndarray, request: MadBatch, sender: Station, target: Station) -> None:
        """Record that station ``target`` has received a request whose sender waits for the answer. If the MAD is an
        answer, remove the record of its request."""
        if is_response(handed):
            self.waiting.answered(handed)
        elif getattr(sender, "waits_forever", False) and handed[METHOD_AT] != Method.SEND:
            self.waiting.keep(request, sender, target.number, clock_ps())

    def _give_back_all(self, requests: Iterable[Forwarded]) -> None:
        """Send unanswered requests to their senders."""
        for forwarded in requests:
            forwarded.request.status[:] = SendStatus.TIMEOUT
            self.bounced += 1
            forwarded.sender.deliver(forwarded.request)

    # -- MADs of the fabric and of managers in this process --

    def fold(self, now_ps: int) -> None:
        """Add the packets of applications to the counters of the ports on their paths."""
        if self.cells.head[HIGH]:
            fold_cells(self.plane.tables, self.cells, now_ps)

    def send(self, batch: MadBatch, port: int, now_ps: int) -> MadBatch:
        """Send ``batch`` from ``port``; return the agents' answers. MADs for programs are delivered to them."""
        self.fold(now_ps)
        answers, delivery = self.plane.exchange(batch, port, now_ps)
        self.epoch += bool((batch.mad[:, METHOD_AT] == Method.SET).any())  # not SA MADs
        if delivery is not None:
            self.deliver(delivery)
        return answers

    def deliver(self, delivery: Delivery) -> list[int]:
        """Deliver MADs that reached the ports of programs. Returns the rows that no station takes.

        A station that can take long messages gets them whole; other stations get the first 256 bytes.
        """
        arrived = delivery.batch
        arrived.slid[arrived.dlid == LID_PERMISSIVE] = LID_PERMISSIVE
        long, arrived.payload = arrived.payload or {}, None
        untaken = []
        for i, port in enumerate(delivery.ports.tolist()):
            mad = arrived.mad[i]
            if self._represses(mad, port):
                continue
            target = self.stations.target(mad, port)
            if target is None:
                untaken.append(int(delivery.rows[i]))
                continue
            whole = getattr(target, "deliver_long", None) if i in long else None
            if whole is not None:
                whole(arrived[i : i + 1], long[i])
            else:
                target.deliver(arrived[i : i + 1])
            self.forwarded += 1
            dlid, sl = int(arrived.dlid[i]), int(arrived.sl[i])
            self.segments.count(mad, len(long.get(i, b"")), dlid, sl, delivery.sender, port)
        return untaken

    def traps(self, now_ps: int) -> None:
        """Send new traps of devices, and repeat due traps that were not repressed yet. Each goes to the manager whose
        LID its port has recorded. :meth:`tick` sends the rest."""
        self.trap_queue.collect(now_ps)
        for _ in range(TRAPS_A_STEP):
            try:
                trap = self.trap_queue.take(now_ps)
                if trap is None:
                    return
                _, delivery = self.plane.exchange(*trap, now_ps)
                if delivery is not None:
                    self.deliver(delivery)
            except Exception:
                self.report_bug("sending a trap")

    def _represses(self, mad: np.ndarray, port: int) -> bool:
        """Return whether this is the manager's answer to a trap of the device at end port ``port``.
        If so, the trap is not repeated. (A trap that a program sent is repressed by the program that receives it.)"""
        if mad[METHOD_AT] != Method.TRAP_REPRESS or mad[CLASS_AT] != MgmtClass.SUBN_LID:
            return False
        return self.trap_queue.repressed(port, int.from_bytes(mad[TID_AT : TID_AT + 8].tobytes(), "big"), clock_ps())

    # -- time, as a peer of the event loop --

    def wait_s(self, now_ps: int) -> float:
        """Return the seconds until a request expires, a trap is repeated, or a device samples (infinite: none of
        these)."""
        if self.plane.tables.notice_count[0]:
            return 0.0
        due = [
            d for d in (self.waiting.next_ps(), self.trap_queue.next_ps(), self.plane.next_sample_ps()) if d is not None
        ]
        return max(0.0, (min(due) - now_ps) / 1e12) if due else math.inf

    def tick(self, now_ps: int) -> None:
        """Fail requests that programs did not answer in time, send due traps, and let devices sample."""
        self._give_back_all(self.waiting.take_expired(now_ps))
        self.traps(now_ps)
        if self.plane.tables.samplers[0, 0]:
            self.plane.advance(now_ps)

    def on_ready(self, sockets: int) -> None:
        """Called before the loop handles ``sockets`` ready sockets."""
        self.alone = sockets == 1

    def set_link(self, port: int, up: bool, now_ps: int) -> None:
        """Take the link at ``port`` down or up; the traps of its switches are sent at once."""
        self.plane.set_link(port, up, now_ps)
        self.epoch += 1
        self.traps(now_ps)
