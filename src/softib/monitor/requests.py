"""Batches of Gets of performance and subnet management, addressed by LID. The number of requests in flight at one
device is limited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softib.iba.constants import GSI_QP, Method, MgmtClass
from softib.iba.smp import DATA_AT, STATUS_AT, STATUS_CODE_AT, MadHeader
from softib.live.clock import clock_ps
from softib.live.umad_client.wire import MadWire, Pacing
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor
from softib.monitor.targets import Targets

__all__ = ["PacedGets", "PerDevice", "perf_gets", "port_gets", "sa_gets", "smp_gets", "vendor_gets"]

PORT_SELECT_AT = DATA_AT + 1
"""Offset of PortSelect in every PerfMgt attribute with counters (IBA 16.1.3)."""
Heard = Callable[[np.ndarray, np.ndarray], None]
"""Called for answers with status 0, with the tags of their requests (int64[n]) and the MADs (uint8[n, 256])."""
Lost = Callable[[np.ndarray, bool], None]
"""Called for requests without such an answer, with their tags, and whether the agent reported that it does not support
the attribute (False: it did not answer, or refused for a reason that may be temporary)."""
UNSUPPORTED, STATUS_CODE = 0x0C, 0x1C
"""Status "method and attribute combination not supported", and the bits of the status with this code (IBA 13.4.7)."""


def perf_gets(attr: int, lid: np.ndarray, portnum: np.ndarray) -> MadBatch:
    """Return PerfMgtGet requests for one attribute of the ports ``portnum`` of the devices at ``lid``."""
    batch = _gets(MgmtClass.PERF, attr, lid)
    batch.dqp[:] = batch.sqp[:] = GSI_QP
    batch.mad[:, PORT_SELECT_AT] = portnum
    return batch


def port_gets(attr: int | None, targets: Targets, rows: np.ndarray) -> MadBatch:
    """Return PerfMgtGet requests for one attribute of the ports in ``rows`` of ``targets``."""
    assert attr is not None
    return perf_gets(attr, targets.dlid[rows], targets.ports.portnum[rows].astype(np.uint8))


def vendor_gets(mgmt_class: int, attr: int, lid: np.ndarray) -> MadBatch:
    """Return VendorGet requests for one attribute of the agents at ``lid``."""
    batch = _gets(MgmtClass(mgmt_class), attr, lid)
    batch.dqp[:] = batch.sqp[:] = GSI_QP
    return batch


def sa_gets(attr: int, lid: np.ndarray) -> MadBatch:
    """Return SubnAdmGet requests for one attribute of the subnet administrators at ``lid`` (class version 2, IBA
    15.2.1)."""
    batch = _gets(MgmtClass.SUBN_ADM, attr, lid)
    MadHeader.class_version.set(batch.mad[:, : MadHeader.size], 2)
    batch.dqp[:] = batch.sqp[:] = GSI_QP
    return batch


def smp_gets(attr: int, lid: np.ndarray, modifier: Any = 0) -> MadBatch:
    """Return SubnGet requests for one attribute of the devices at ``lid``."""
    batch = _gets(MgmtClass.SUBN_LID, attr, lid)
    MadHeader.attr_mod.set(
        batch.mad[:, : MadHeader.size], np.broadcast_to(np.asarray(modifier, np.uint32), len(lid)).copy()
    )
    return batch


def _gets(mgmt_class: MgmtClass, attr: int, lid: np.ndarray) -> MadBatch:
    batch = MadBatch.zeros(len(lid))
    head = MadHeader.pack(
        base_version=1, mgmt_class=int(mgmt_class), class_version=1, method=int(Method.GET), attr_id=int(attr)
    )
    batch.mad[:, : MadHeader.size] = head
    batch.dlid[:], batch.slid[:] = lid, 0
    batch.dqp[:] = batch.sqp[:] = 0
    return batch


class PerDevice:
    """Requests that wait to be sent, ordered so that consecutive ones go to different devices. :meth:`take` returns the
    requests that may be sent now.

    ``device`` int32[n]: the device of each request; ``most``: maximum number of requests in flight at one device.
    """

    def __init__(self, device: np.ndarray, devices: int, most: int):
        self.device, self.most = device, most
        self.in_flight = np.zeros(devices, np.int64)
        self.silent = np.zeros(devices, bool)
        self._order = np.lexsort((device, rank_in_group(device)))
        self._at = 0
        self._held = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._order) - self._at + len(self._held)

    def take(self, room: int) -> np.ndarray:
        """Return at most ``room`` requests. Requests to silent devices are dropped (see :meth:`dropped`)."""
        fresh = max(0, room - len(self._held))
        candidates = np.concatenate([self._held, self._order[self._at : self._at + fresh]])
        self._at = min(len(self._order), self._at + fresh)
        candidates = candidates[~self.silent[self.device[candidates]]]
        of = self.device[candidates]
        may = self.in_flight[of] + rank_in_group(of) < self.most
        taken = candidates[may][:room]
        self._held = np.concatenate([candidates[may][room:], candidates[~may]])
        self.in_flight += np.bincount(self.device[taken], minlength=len(self.in_flight))
        return taken

    def over(self, rows: np.ndarray, silent: bool) -> None:
        """Mark these requests as finished. ``silent``: whether each had no answer."""
        of = self.device[rows]
        self.in_flight -= np.bincount(of, minlength=len(self.in_flight))
        if silent:
            self.silent[of] = True


def rank_in_group(group: np.ndarray) -> np.ndarray:
    """Return, for each entry, the number of earlier entries with the same value (int64[n])."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    first = np.searchsorted(sorted_group, sorted_group, "left")
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - first
    return rank


class PacedGets:
    """Sends Gets over ``wire``. ``sent`` and ``timeouts``: numbers of requests and timeouts since the start; ``most``:
    maximum number of requests in flight at one device."""

    def __init__(self, wire: MadWire, most: int = 4, timeout_ps: int = 200 * 10**9, retries: int = 1):
        self.wire, self.most = wire, most
        self.transactor = Transactor(64, timeout_ps, retries)
        self.pacing = Pacing(self.transactor)

    @property
    def sent(self) -> int:
        """The number of requests sent, including repetitions."""
        return self.transactor.sent

    def run(
        self, batch: MadBatch, device: np.ndarray, devices: int, heard: Heard, lost: Lost = lambda tags, refused: None
    ) -> np.ndarray:
        """Send every row of ``batch`` to its ``device`` and wait until all are answered or abandoned; returns the
        silent devices (bool[devices]).

        If a device is silent, its remaining requests are not sent, and ``lost`` is not called for them.
        """
        t, queue = self.transactor, PerDevice(device, devices, self.most)
        inbox: MadBatch | None = None
        while len(queue) or t.busy:
            now_ps = clock_ps()
            t.receive(now_ps, inbox)
            for done in t.completed():
                queue.over(done.tags, done.timed_out)
                if done.timed_out:
                    lost(done.tags, False)
                    continue
                mad = done.batch.mad
                bad = (mad[:, STATUS_CODE_AT] != 0) | ((mad[:, STATUS_AT] & 0x7F) != 0)
                if bad.any():
                    lacks = bad & (mad[:, STATUS_CODE_AT] & STATUS_CODE == UNSUPPORTED)
                    lost(done.tags[lacks], True)
                    lost(done.tags[bad & ~lacks], False)
                    heard(done.tags[~bad], mad[~bad])
                else:
                    heard(done.tags, mad)
            if t.room > 0 and len(queue):
                rows = queue.take(t.room)
                if len(rows):
                    t.submit(batch[rows], rows)
            inbox = self.pacing.exchange(self.wire, now_ps)
        return queue.silent
