"""Messages of the packet layer as rows: their packets and sequence numbers, and the receives that they find."""

from __future__ import annotations

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.packet import constants
from softib.sim.packet.tables.transport import MESSAGE

__all__ = ["message_rows"]


def message_rows(m: Messages, lids: np.ndarray, q: np.ndarray, order: np.ndarray, row: np.ndarray) -> np.ndarray:
    """``State.message``; ``lids`` are the messages' DLIDs."""
    n = len(m)
    out = MESSAGE.zeros(max(n, 1))
    payload = q["payload"][row]
    packets = -(-m.size // payload)
    packets = np.where(m.opcode == Opcode.ATOMIC, 1, packets)
    too_long = (m.transport == Transport.UD) & (packets > 1) & (q["service"][row] == Transport.UD)
    if too_long.any():
        i = int(np.argmax(too_long))
        raise InputError(
            f"message {i} is a datagram of {int(m.size[i]):,} octets; UD sends at most the path MTU, {int(payload[i]):,}"
        )
    out["qp"][:n], out["length"][:n], out["packets"][:n], out["opcode"][:n] = row, m.size, packets, m.opcode
    immediate = m.opcode == Opcode.WRITE_WITH_IMM
    out["immediate"][:n] = immediate
    out["opcode"][:n][immediate] = Opcode.WRITE
    out["length"][:n] = np.where(m.computes, m.delay_ps, m.size)
    sent = np.cumsum(packets[order]) - packets[order]
    of_first = sent[q["first_message"][row[order]]] if n else sent
    psn = np.empty(n, np.int64)
    psn[order] = sent - of_first
    out["psn"][:n] = psn
    # What waits for nothing has had all of it at time 0, so its delay counts from there.
    out["start"][:n], out["delay"][:n] = np.maximum(m.start_ps, m.wait_ps), m.wait_ps
    out["lid"][:n] = lids
    out["needs"][:n] = np.diff(m.first)
    out["value"][:n] = m.value
    out["receive"][:n] = _receives(m, order)
    for column in ("began", "arrived", "completed"):
        out[column] = -1
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
    out[unreliable] = constants.NEEDS_RECEIVE
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
