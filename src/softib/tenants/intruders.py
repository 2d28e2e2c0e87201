"""Receives reports of packets that were refused for a wrong P_Key or Q_Key. The subnet administrator of any manager
forwards the traps 257, 258 and 259 of all ports to subscribers (IBA 13.4.11).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.errors import SoftibError
from softib.iba import sa
from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.notice import Notice, TrapBadKey, TrapBadSwitchPKey
from softib.iba.sa import SA_DATA, SaHeader, SaMethod
from softib.iba.smp import PortInfo
from softib.live.clock import clock_ps
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.wire import MadWire, smp_get, transact
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor
from softib.tenants.model import DEFAULT_BASE

__all__ = ["LISTENS", "Intruder", "IntruderWatch"]

LOG = logging.getLogger("softib.tenants")
LISTENS = {**ASKS, int(MgmtClass.SUBN_ADM): 1 << SaMethod.REPORT}
"""Management classes whose MADs the connection receives, with the unsolicited methods of each class."""
BAD_PKEY, BAD_QKEY, BAD_SWITCH_PKEY = 257, 258, 259
SECURITY, EVERY, EVERY_TYPE = 2, 0xFFFF, 0xFFFFFF
RESUBSCRIBE_S = 60.0
REST_S = 1.0


@dataclass(frozen=True)
class Intruder:
    """A refused packet. ``lid``, ``target``: LIDs of its sender and its target. ``key``: its P_Key or Q_Key.
    ``reporter``: LID of the port that refused it and sent the trap with number ``trap``. ``portnum``: the switch port,
    in trap 259.
    """

    at_s: float
    trap: int
    lid: int
    target: int
    key: int
    reporter: int
    portnum: int = 0

    def named(self, name_of: Callable[[int], str]) -> str:
        """Return the refused packet as a line of text. ``name_of`` returns the name of the port with a LID."""
        kind = "Q_Key" if self.trap == BAD_QKEY else "P_Key"
        where = name_of(self.reporter)
        if self.trap == BAD_SWITCH_PKEY:
            where = f"port {self.portnum} of {where.removesuffix('[0]')}" if self.portnum else f"a port of {where}"
        sent = f"{name_of(self.lid)} sent to {name_of(self.target)} with {kind} {self.key:#x}"
        if kind == "P_Key" and not self.key & DEFAULT_BASE:  # an empty entry (IBA 10.9.1.1)
            sent += " (no P_Key: its table has none at the index of its queue pair, for example after a removal)"
        return f"{sent}; {where} refused it (trap {self.trap})"


class IntruderWatch:
    """Monitors refused packets in a thread. ``open_wire`` opens a connection to the subnet for the classes
    :data:`LISTENS`, and returns it and the function that closes it.
    """

    def __init__(self, open_wire: Callable[[], tuple[MadWire, Callable[[], None]]], clock: Callable[[], float]):
        self._open, self.clock = open_wire, clock
        self._reports: list[Intruder] = []
        self.subscribed = threading.Event()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, take: Callable[[list[Intruder]], None], rest: Callable[[], None]) -> None:
        """Start the thread. It calls ``take`` with all reports that arrived together, and ``rest`` every second."""
        self._take_reports, self._rest = take, rest
        self._thread = threading.Thread(target=self._run, name="softib-tenants-intruders", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                wire, close = self._open()
            except SoftibError as error:
                LOG.info("refused packets are not monitored: %s", error)
                self._ends.wait(RESUBSCRIBE_S)
                continue
            try:
                while not self._ends.is_set():
                    self._subscribe(wire)
                    self._listen(wire, clock_ps() + int(RESUBSCRIBE_S * 1e12))
            except SoftibError as error:
                LOG.info("refused packets are not monitored: %s", error)
                self._ends.wait(1.0)
            finally:
                close()

    def _subscribe(self, wire: MadWire) -> None:
        """Subscribe to the traps. A subscription ends when the subnet administrator restarts, so it is renewed
        periodically.
        """
        info = transact(wire, smp_get(SmpAttr.PORT_INFO))
        if info is None:
            return
        wanted = {"lid_range_begin": EVERY, "is_generic": 1, "subscribe": 1, "type": SECURITY, "trap_number": EVERY}
        record = sa.InformInfo.pack(**wanted, producer_type=EVERY_TYPE)
        head = SaHeader.pack(
            base_version=1,
            mgmt_class=int(MgmtClass.SUBN_ADM),
            class_version=2,
            method=int(SaMethod.SET),
            attr_id=sa.InformInfo.attr,
        )
        request = _request(head.tobytes() + record.tobytes(), int(PortInfo.master_sm_lid.get(info)))
        t, inbox = Transactor(1, 500 * 10**9, 3), None
        t.submit(request, np.zeros(1, np.int64))
        while t.busy and not self._ends.is_set():
            outbox, _ = t.step(clock_ps(), inbox)
            for done in t.completed():
                if not done.timed_out:
                    self.subscribed.set()
            inbox = self._take(wire, wire.exchange(outbox))

    def _listen(self, wire: MadWire, until_ps: int) -> None:
        due = time.monotonic()
        while clock_ps() < until_ps and not self._ends.is_set():
            if wire.wait(0.25):
                self._take(wire, wire.exchange())
            if time.monotonic() >= due:
                self._rest()
                due = time.monotonic() + REST_S

    def _take(self, wire: MadWire, inbox: MadBatch | None) -> MadBatch | None:
        """Store and acknowledge the reports in ``inbox``. Return the other MADs."""
        if inbox is None:
            return None
        reports = SaHeader.method.get(inbox.mad) == SaMethod.REPORT
        for i in np.flatnonzero(reports).tolist():
            self._keep(inbox.mad[i, SA_DATA : SA_DATA + Notice.size])
        if self._reports:
            self._take_reports(self._reports)
            self._reports = []
        if reports.any():
            answers = inbox[reports].copy()
            SaHeader.method.set(answers.mad, int(SaMethod.REPORT_RESP))
            answers.dlid[:], answers.dqp[:], answers.sqp[:] = answers.slid.copy(), 1, 1
            wire.exchange(answers)
        return inbox[~reports]

    def _keep(self, notice: np.ndarray) -> None:
        trap = int(Notice.trap_number.get(notice))
        if trap not in (BAD_PKEY, BAD_QKEY, BAD_SWITCH_PKEY) or not Notice.is_generic.get(notice):
            return
        details = np.ascontiguousarray(notice[Notice.data_details.byte : Notice.data_details.byte + 54])
        kind = TrapBadSwitchPKey if trap == BAD_SWITCH_PKEY else TrapBadKey
        key = TrapBadSwitchPKey.pkey.get(details) if trap == BAD_SWITCH_PKEY else TrapBadKey.key.get(details)
        lids = int(kind.lid1.get(details)), int(kind.lid2.get(details))
        portnum = int(TrapBadSwitchPKey.portnum.get(details)) if trap == BAD_SWITCH_PKEY else 0
        issuer = int(Notice.issuer_lid.get(notice))
        self._reports.append(Intruder(self.clock(), trap, *lids, int(key), issuer, portnum))


def _request(message: bytes, dlid: int) -> MadBatch:
    batch = MadBatch.zeros(1)
    batch.mad[0, : len(message)] = np.frombuffer(message, np.uint8)
    batch.dlid[:], batch.dqp[:], batch.sqp[:] = dlid, 1, 1
    return batch
