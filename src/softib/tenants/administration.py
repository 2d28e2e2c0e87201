"""Sends a single request to the subnet administrator; any host may send one (IBA 15.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.iba.constants import MadStatus
from softib.iba.sa import SA_DATA, SaHeader, SaMethod, mask_of
from softib.iba.structure import Structure
from softib.live.clock import clock_ps
from softib.live.umad_client.wire import MadWire
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor
from softib.monitor.requests import sa_gets

__all__ = ["SaAnswer", "ask_administration"]

COPY_PS = 10**11
"""Interval between copies of a query: ib_sa of Linux repeats it ten times in the time limit of its caller, which is 1 s
for IPoIB (drivers/infiniband/core/sa_query.c, ``send_mad``)."""


@dataclass(frozen=True)
class SaAnswer:
    """An answer. ``status``: status in its header (None: no answer arrived). ``record``: uint8[n], bytes of the
    record.
    """

    status: int | None
    record: np.ndarray

    @property
    def good(self) -> bool:
        """Return whether the request was executed and its answer has a record."""
        return self.status == MadStatus.OK and len(self.record) > 0


def ask_administration(
    wire: MadWire,
    lid: int,
    record: type[Structure],
    fields: dict[str, Any],
    sm_key: int = 0,
    method: SaMethod = SaMethod.GET,
    patience_s: float = 1.0,
) -> SaAnswer:
    """Send ``record`` to the subnet administrator at ``lid``, with the bits of ``fields`` set in the ComponentMask.
    Wait at most ``patience_s`` for an answer, and return it."""
    request = sa_gets(int(record.attr or 0), np.array([lid], np.uint16))
    head = request.mad[0, : SaHeader.size]
    SaHeader.method.set(head, int(method))
    SaHeader.sm_key.set(head, sm_key)
    SaHeader.comp_mask.set(head, mask_of(record, *fields))
    request.mad[0, SA_DATA : SA_DATA + record.size] = record.pack(**fields)
    t = Transactor(1, COPY_PS, round(patience_s * 1e12 / COPY_PS))
    t.submit(request, np.zeros(1, np.int64))
    inbox: MadBatch | None = None
    while t.busy:
        outbox, deadline_ps = t.step(clock_ps(), inbox)
        for done in t.completed():
            mad = done.batch.mad[0]
            if done.timed_out:
                return SaAnswer(None, mad[:0].copy())
            return SaAnswer(int(SaHeader.status.get(mad)), mad[SA_DATA : SA_DATA + record.size].copy())
        inbox = wire.exchange(outbox)
        if inbox is None:
            wire.wait(min(0.25, max(0.0, (deadline_ps - clock_ps()) / 1e12)))
            inbox = wire.exchange()
    return SaAnswer(None, np.zeros(0, np.uint8))
