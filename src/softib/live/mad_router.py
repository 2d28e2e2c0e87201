"""Where MADs of programs go: to the fabric's agents, to another program on the addressed port, or back with status 110.

No sockets here: clients are handed in, and each has ``deliver``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from softib.agents.kernels.app_traffic import HIGH, fold_cells
from softib.agents.plane import AgentPlane, Delivery
from softib.agents.rmpp_segments import RmppSegments
from softib.agents.trap_queue import TrapQueue
from softib.iba.constants import LID_PERMISSIVE, Method, MgmtClass
from softib.iba.smp import PortInfo
from softib.live.clock import clock_ps
from softib.live.crash_log import ReportBug, raised
from softib.live.ibsim.burst import BURST, burst_of
from softib.live.ibsim.client import Client
from softib.live.ibsim.forwarded import Forwarded, Waiting
from softib.live.ibsim.kernels import LAST, RECEIVED, REPLIES, answer_frames, bounce, pump
from softib.live.ibsim.wire import FRAME, FRAME_SIZE, frames_of
from softib.live.verbs.traffic import no_cells
from softib.mad.batch import MadBatch

if TYPE_CHECKING:
    from softib.live.pcap.writer import PcapWriter

__all__ = ["BURST", "MadRouter", "Station"]

PUMP_ROUNDS, PUMP_ROUNDS_ALONE = 128, 2048
"""Bursts of one client in a row before the others have their turn; and where there is only one (a turn of the loop
costs as much as five MADs)."""
TRAPS_A_TURN = 64
"""What thousands of devices have to tell does not keep programs waiting."""
RESPONSE_BIT = 0x80


class Station(Protocol):
    """Somebody who sits on a port: a program behind a socket, or a subnet manager in this process."""

    number: int
    port: int
    issm: bool
    classes: np.ndarray

    def takes(self, mad: np.ndarray) -> bool:
        """May this MAD be handed over?"""

    def deliver(self, frames: np.ndarray) -> None:
        """Here it is (uint8[n, 288])."""


class MadRouter:
    """Carries MADs between ``plane`` and the stations on it. ``epoch`` counts changes of the configuration."""

    def __init__(self, plane: AgentPlane, cells: Any = None):
        """``cells``: what applications count (:class:`softib.live.verbs.traffic.Cells`; None: there are none)."""
        self.plane, self.fabric = plane, plane.fabric
        self.cells = no_cells() if cells is None else cells
        self.report_bug: ReportBug = raised
        """Called where our own code fails; requests that were under way are bounced."""
        self.stations: dict[int, Station] = {}
        self.epoch = 0
        self.answered = self.bounced = self.forwarded = 0
        self.alone = False
        """Nobody but one program wants something: the server may wait for it in the kernel."""
        self.waiting = Waiting()
        self.trap_queue = TrapQueue(plane)
        self.segments = RmppSegments(plane)
        self.burst = burst_of()
        self.frames, self.counts = self.burst.frames, self.burst.counts
        """Where the caller puts a client's datagrams for :meth:`handle`; what the kernels counted."""
        self.sls, self.pkey_indices = self.burst.sls, self.burst.pkey_indices
        """SL and P_Key index of each of ``frames``; a caller that sets them sets them back to 0."""
        self.pumps = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
        self.tap: Callable[[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None] | None = None
        """Sees each burst of a program: its port, datagrams, SLs, P_Key indices, replies (:class:`~.pcap.PcapWriter`)."""
        self._warm()

    def _warm(self) -> None:
        """Compile now, not while the first client waits."""
        classes = np.zeros(256, np.uint8)
        tables = self.plane.tables
        answer_frames(tables, self.cells, 0, 0, 0, 0, classes, self.burst)
        bounce(self.frames[0], self.burst.replies[0])
        if self.pumps:
            pump(tables, self.cells, 0, 0, 0, -1, 0, 0, classes, self.burst)

    # -- who is there --

    def join(self, station: Station) -> None:
        """From now on ``station`` gets what is for it."""
        self.stations[station.number] = station
        self.announce(station.port)

    def leave(self, station: Station) -> None:
        """It is gone; a port without a manager no longer says IsSM."""
        self.stations.pop(station.number, None)
        self._give_back(self.waiting.left(station.number))
        self.announce(station.port)

    def announce(self, port: int) -> None:
        """Keep CapabilityMask.IsSM of ``port`` true (IBA 14.2.5.6): the port's driver sets it for its manager. A change
        raises trap 144, which tells the master of a manager that came or went."""
        before = self.fabric.port_info[port].tobytes()
        now_ps = clock_ps()
        self.plane.set_is_sm(port, any(s.issm and s.port == port for s in self.stations.values()), now_ps)
        if self.fabric.port_info[port].tobytes() != before:
            self.epoch += 1
            self.traps(now_ps)

    # -- what programs send --

    def handle(self, sender: Station, n: int, now_ps: int) -> None:
        """Answer, forward or bounce the first ``n`` of ``frames``, which ``sender`` sent."""
        if self.answer(sender, n, now_ps):
            self.finish(sender, now_ps)

    def answer(self, sender: Station, n: int, now_ps: int) -> bool:
        """What :meth:`handle` does before :meth:`finish`; False where a mistake of ours was in the way."""
        self.counts[:] = 0
        try:
            answer_frames(
                self.plane.tables, self.cells, sender.port, sender.number, now_ps, n, sender.classes, self.burst
            )
        except Exception:
            self.report_bug("answering requests")
            self._bounce(sender, range(n))
            return False
        if self.tap is not None:
            self._show(sender, n)
        return True

    def _show(self, sender: Station, n: int) -> None:
        b = self.burst
        assert self.tap is not None
        try:
            self.tap(sender.port, b.frames[:n], b.sls[:n], b.pkey_indices[:n], b.replies[: self.counts[REPLIES]])
        except Exception:
            self.report_bug("capturing MADs")

    def capture(self, writer: PcapWriter) -> None:
        """From now on ``writer`` sees every MAD; programs' requests are no longer pumped past Python."""
        self.pumps, self.tap, self.plane.tap = False, writer.burst, writer.batch

    def pump(self, sender: Client, wait: bool, now_ps: int) -> int:
        """Receive, :meth:`handle` and send again and again in one call; with ``wait`` each receive waits for the
        socket's timeout. Returns how many datagrams were received."""
        self.counts[:] = 0
        try:
            pump(
                self.plane.tables, self.cells, sender.port, sender.number, now_ps, sender.sock.fileno(), int(wait),
                PUMP_ROUNDS if len(self.stations) > 1 else PUMP_ROUNDS_ALONE, sender.classes, self.burst,
            )  # fmt: skip
        except Exception:
            self.report_bug("answering requests")
            self._bounce(sender, range(int(self.counts[LAST])))  # the burst before it was answered
            return int(self.counts[RECEIVED])
        received = int(self.counts[RECEIVED])
        sender.received += received
        self.finish(sender, now_ps)
        return received

    def _bounce(self, sender: Station, rows: Iterable[int]) -> None:
        """The requests among ``rows`` of ``frames`` go back as timed out: nobody waits for what failed."""
        for row in rows:
            frame, back = self.frames[row], np.zeros((1, FRAME_SIZE), np.uint8)
            if not frame[35] & RESPONSE_BIT and frame[35] != Method.TRAP_REPRESS:
                bounce(frame, back[0])
                self.bounced += 1
                sender.deliver(back)

    def finish(self, sender: Station, now_ps: int) -> None:
        """What the kernels leave to do after a burst (of ``counts``)."""
        replies, forwards, sets, bounces, sent, received, _ = self.counts.tolist()
        self.answered += max(received, replies) - bounces
        self.bounced += bounces
        self.epoch += bool(sets)
        if replies > sent:
            sender.deliver(self.burst.replies[sent:replies])
        if forwards:
            self._forward_all(sender, forwards)
        if self.plane.tables.notice_count[0]:
            self.traps(now_ps)

    def _forward_all(self, sender: Station, n: int) -> None:
        b = self.burst
        frames = b.forwards[:n].copy()
        ports, rows = b.forward_port[:n].tolist(), b.forward_row[:n].tolist()
        lid = int(PortInfo.lid.get(self.fabric.port_info[sender.port]))
        heads = frames.view(FRAME)[:, 0]
        heads["slid"] = np.where(heads["dlid"] == LID_PERMISSIVE, LID_PERMISSIVE, lid)
        heads["status"], heads["pad2"], heads["length"] = 0, 0, 256
        for i, port in enumerate(ports):
            if self._represses(frames[i, 32:], port):
                continue
            try:
                target = self.target(frames[i, 32:], port, sender)
                if target is not None:
                    target.deliver(frames[i : i + 1])
                    octets, sl = self.segments.octets() if i == 0 else 0, int(self.sls[rows[i]])
                    self.segments.count(frames[i, 32:], octets, int(heads["dlid"][i]), sl, sender.port, port)
            except Exception:
                self.report_bug("handing a MAD over")
                target = None
            if target is None:
                self._bounce(sender, (rows[i],))
            else:
                self.forwarded += 1
                self._remember(frames[i], self.frames[rows[i]], sender, target)

    def _remember(self, handed: np.ndarray, asked: np.ndarray, sender: Station, target: Station) -> None:
        """A request that ``target`` has now waits for its answer; an answer ends that."""
        method = int(handed[35])
        if method & RESPONSE_BIT or method == Method.TRAP_REPRESS:
            self.waiting.answered(handed)
        elif isinstance(sender, Client) and method != Method.SEND:
            self.waiting.keep(asked, sender, target.number, clock_ps())

    def _give_back(self, requests: Iterable[Forwarded]) -> None:
        """Nobody answered these."""
        for request in requests:
            back = np.zeros((1, FRAME_SIZE), np.uint8)
            bounce(request.frame, back[0])
            self.bounced += 1
            request.sender.deliver(back)

    def target(self, mad: np.ndarray, port: int, sender: Station | None = None) -> Station | None:
        """Who on ``port`` takes this MAD: a response (and the TrapRepress of a trap) goes to the client of its TID, a
        request to the manager there, or else to another program that speaks the class; None where nobody may get it.

        A program that is no manager never gets its own request: by the TID it would take it for the answer.
        """
        if mad[3] & RESPONSE_BIT or mad[3] == Method.TRAP_REPRESS:
            asked = self.stations.get(int(mad[8]) << 8 | int(mad[9]))
            return asked if asked is not None and asked.port == port and asked.takes(mad) else None
        here = [s for s in self.stations.values() if s.port == port and (s.issm or s is not sender) and s.takes(mad)]
        here.sort(key=lambda s: not s.issm)
        return here[0] if here else None

    # -- what the fabric and managers in this process send --

    def fold(self, now_ps: int) -> None:
        """Add what applications have sent to the counters of the ports on the way."""
        if self.cells.head[HIGH]:
            fold_cells(self.plane.tables, self.cells, now_ps)

    def send(self, batch: MadBatch, port: int, now_ps: int) -> MadBatch:
        """``batch`` leaves ``port``; returns the agents' answers. What is for programs is delivered to them."""
        self.fold(now_ps)
        answers, delivery = self.plane.exchange(batch, port, now_ps)
        self.epoch += bool((batch.mad[:, 3] == Method.SET).any())  # the administrator's answers change nothing
        if delivery is not None:
            self.deliver(delivery)
        return answers

    def deliver(self, delivery: Delivery) -> list[int]:
        """Hand over what reached the ports of programs. Returns the rows that nobody takes.

        A message longer than a MAD goes whole to a station that takes such; others get its first 256 octets.
        """
        klass = delivery.batch.mad[:, 1]
        smi = (klass == MgmtClass.SUBN_LID) | (klass == MgmtClass.SUBN_DR)
        frames = frames_of(delivery.batch, np.where(smi, 0, 1))
        long = delivery.batch.payload or {}
        octets = frames.view(np.uint8).reshape(len(frames), FRAME_SIZE)
        untaken = []
        for i, port in enumerate(delivery.ports.tolist()):
            if self._represses(octets[i, 32:], port):
                continue
            target = self.target(octets[i, 32:], port)
            if target is None:
                untaken.append(int(delivery.rows[i]))
                continue
            whole = getattr(target, "deliver_long", None) if i in long else None
            if whole is not None:
                whole(octets[i : i + 1], long[i])
            else:
                target.deliver(octets[i : i + 1])
            self.forwarded += 1
            dlid, sl = int(delivery.batch.dlid[i]), int(delivery.batch.sl[i])
            self.segments.count(octets[i, 32:], len(long.get(i, b"")), dlid, sl, delivery.sender, port)
        return untaken

    def traps(self, now_ps: int) -> None:
        """Send the traps that devices raised and those that nobody repressed yet, as far as their time has come, each to
        the manager that its port knows. :meth:`tick` sends the rest."""
        self.trap_queue.collect(now_ps)
        for _ in range(TRAPS_A_TURN):
            try:
                made = self.trap_queue.take(now_ps)
                if made is None:
                    return
                _, delivery = self.plane.exchange(*made, now_ps)
                if delivery is not None:
                    self.deliver(delivery)
            except Exception:
                self.report_bug("sending a trap")

    def _represses(self, mad: np.ndarray, port: int) -> bool:
        """Is this the manager's answer to a trap of the device at end port ``port``? Then the trap ends. (A program's own
        trap ends at the program.)"""
        if mad[3] != Method.TRAP_REPRESS or mad[1] != MgmtClass.SUBN_LID:
            return False
        return self.trap_queue.repressed(port, int.from_bytes(mad[8:16].tobytes(), "big"), clock_ps())

    # -- time, as a peer of the event loop --

    def wait_s(self, now_ps: int) -> float:
        """Seconds until a request's time is over, a trap is sent again, or a device samples (infinite: nothing waits)."""
        if self.plane.tables.notice_count[0]:
            return 0.0
        due = [
            d for d in (self.waiting.next_ps(), self.trap_queue.next_ps(), self.plane.next_sample_ps()) if d is not None
        ]
        return max(0.0, (min(due) - now_ps) / 1e12) if due else math.inf

    def tick(self, now_ps: int) -> None:
        """Give back what programs did not answer in time, send the traps that are due, and let devices sample."""
        self._give_back(self.waiting.over(now_ps))
        self.traps(now_ps)
        if self.plane.tables.samplers[0, 0]:
            self.plane.advance(now_ps)

    def on_ready(self, sockets: int) -> None:
        """The loop handles ``sockets`` ready ones next."""
        self.alone = sockets == 1

    def set_link(self, port: int, up: bool, now_ps: int) -> None:
        """The link at ``port`` fails or comes back; its switches' traps leave at once."""
        self.plane.set_link(port, up, now_ps)
        self.epoch += 1
        self.traps(now_ps)
