"""Messages of the packet layer as rows: their packets and sequence numbers, and the receives that they find."""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.packet import tables as t

__all__ = ["message_rows"]


def message_rows(m: Messages, lids: np.ndarray, q: np.ndarray, order: np.ndarray, row: np.ndarray) -> np.ndarray:
    """``State.message``; ``lids`` are the messages' DLIDs."""
    n = len(m)
    out = np.zeros((max(n, 1), t.M_COLUMNS), np.int64)
    payload = q[row, t.PAYLOAD]
    packets = -(-m.size // payload)
    packets = np.where(m.opcode == Opcode.ATOMIC, 1, packets)
    too_long = (m.transport == Transport.UD) & (packets > 1) & (q[row, t.SERVICE] == Transport.UD)
    if too_long.any():
        i = int(np.argmax(too_long))
        raise InputError(
            f"message {i} is a datagram of {int(m.size[i]):,} octets; UD sends at most the path MTU, {int(payload[i]):,}"
        )
    out[:n, t.M_QP], out[:n, t.M_SIZE], out[:n, t.M_PACKETS], out[:n, t.M_OPCODE] = row, m.size, packets, m.opcode
    immediate = m.opcode == Opcode.WRITE_WITH_IMM
    out[:n, t.M_IMMEDIATE] = immediate
    out[:n, t.M_OPCODE][immediate] = Opcode.WRITE
    out[:n, t.M_SIZE] = np.where(m.computes, m.delay_ps, m.size)
    sent = np.cumsum(packets[order]) - packets[order]
    of_first = sent[q[row[order], t.FIRST_MESSAGE]] if n else sent
    psn = np.empty(n, np.int64)
    psn[order] = sent - of_first
    out[:n, t.M_PSN] = psn
    # What waits for nothing has had all of it at time 0, so its delay counts from there.
    out[:n, t.M_START], out[:n, t.M_DELAY] = np.maximum(m.start_ps, m.wait_ps), m.wait_ps
    out[:n, t.M_LID] = lids
    out[:n, t.M_NEEDS] = np.diff(m.first)
    out[:n, t.M_VALUE] = m.value
    out[:n, t.M_RECEIVE] = _receives(m, order)
    for column in (t.M_BEGAN, t.M_ARRIVED, t.M_COMPLETED):
        out[:, column] = -1
    return out


def _receives(m: Messages, order: np.ndarray) -> np.ndarray:
    """``M_RECEIVE``: of the SENDs (and WRITEs with immediate) of a queue pair with ``d`` receives the first ``d`` find one, each other takes that of the ``d``-th before
    it. Of UC and UD who finds one is known when they arrive, as what finds none is lost. Raises :class:`InputError` for receives of a UD queue pair that sends to several
    destinations: each of these has receives of its own."""
    out = np.zeros(len(m), np.int64)
    counted = (m.receives > 0) & np.isin(m.opcode, (Opcode.SEND, Opcode.WRITE_WITH_IMM))
    if not counted.any():
        return out
    unreliable = counted & (m.transport != Transport.RC)
    out[unreliable] = t.NEEDS_RECEIVE
    several = (m.qp[order][1:] == m.qp[order][:-1]) & (m.dst[order][1:] != m.dst[order][:-1]) & unreliable[order][1:]
    several = np.append(several, False) | (m.group[order] > 0) & unreliable[order]
    if several.any():
        i = int(order[np.argmax(several)])
        raise InputError(
            f"message {i} counts receives on a UD queue pair with several destinations; take a queue pair for each"
        )
    counted &= ~unreliable
    rows = order[counted[order]]
    qp = m.qp[rows]
    nth = np.arange(len(rows)) - np.searchsorted(qp, qp)
    others = np.flatnonzero(nth >= m.receives[rows])
    out[rows[others]] = rows[others - m.receives[rows[others]]] + 1
    return out
