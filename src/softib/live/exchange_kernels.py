"""Tables of the MADs that a program sent together, and the compiled function in which the fabric's agents answer all of
them. Servers of every protocol use it.

A server of a protocol puts a program's MADs into ``requests``. :func:`answer` fills ``answers`` and
writes the destination of each MAD to the outcome (:data:`softib.agents.layout.Outcome`), which the server then reads.

The columns of the outcome, int64[n], each in the order of the requests. Replies to the sender:
``reply_row`` is the row of the request, ``reply_answer`` the row of ``answers``, or -1 for a request that comes
back as timed out. MADs for other programs: ``forward_row`` is the row of the request, ``forward_answer`` the row of
``answers`` that holds the MAD as its destination receives it, ``forward_port`` the destination's end port.
``counts`` int64[7]: :data:`REPLIES` to :data:`LAST`. ``fate`` is scratch.
"""

from typing import Any

import numpy as np

from softib.agents.kernels.app_drops import HIGH
from softib.agents.kernels.app_traffic import fold_cells
from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.serve import serve
from softib.agents.layout import Outcome
from softib.iba import constants as c
from softib.iba.smp import ATTR_AT, CLASS_AT, METHOD_AT, TID_AT
from softib.jit import kernel
from softib.mad.batch import COLUMNS, MadBatch, SendStatus, mad_columns

BATCH = 64
"""Largest number of MADs answered in one call. A socket's queue holds fewer (10), so one call can empty it."""
COUNTS = 7


def exchange_of(n: int = BATCH) -> tuple[Any, Any, Any]:
    """Return new tables of ``n`` rows: requests and answers (:data:`~softib.mad.batch.MadColumns`) and the
    :data:`~softib.agents.layout.Outcome`."""
    columns = {name: np.zeros(n, np.int64) for name in Outcome._fields}
    columns |= {"served": np.zeros(2, np.int64), "counts": np.zeros(COUNTS, np.int64)}
    return mad_columns(n), mad_columns(n), Outcome(**columns)


def replies_of(exchange: Any, sent: MadBatch, answered: MadBatch, first: int, end: int) -> MadBatch:
    """Return replies ``first`` to ``end`` - 1 of a batch. A reply is an answer, or a request that comes back as timed
    out.

    ``sent`` and ``answered`` are the requests and answers of ``exchange``; the returned arrays may share their memory.
    """
    taken = exchange.reply_answer[first:end]
    came_back = np.flatnonzero(taken < 0)
    if not len(came_back):  # the agents' answers are in the order of their requests
        return answered[int(taken[0]) : int(taken[0]) + len(taken)] if len(taken) else answered[:0]
    replies, rows = answered[taken], exchange.reply_row[first:end][came_back]
    for name in ("mad", *COLUMNS):
        getattr(replies, name)[came_back] = getattr(sent, name)[rows]
    return replies


SET, RESPONSE_BIT, TRAP_REPRESS = int(c.Method.SET), c.RESPONSE_BIT, int(c.Method.TRAP_REPRESS)
SUBN_LID, SUBN_DR, PERF = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR), int(c.MgmtClass.PERF)
PORT_INFO = int(c.SmpAttr.PORT_INFO)
TIMED_OUT = int(SendStatus.TIMEOUT)

REPLIES, FORWARDS, SETS, BOUNCES, SENT, RECEIVED, LAST = range(7)
"""The entries of ``counts``. REPLIES, FORWARDS, SENT and LAST (MADs) are those of the last batch;
the others are summed until the caller clears them."""


@inner
def is_request(m):
    """Return whether MAD ``m`` (uint8[256]) is a request that needs an answer, or a trap, which
    needs a TrapRepress (a TrapRepress is a response, IBA 13.4.5)."""
    return not m[METHOD_AT] & RESPONSE_BIT and m[METHOD_AT] != TRAP_REPRESS


@kernel(shared=True, _nrt=False)
def answer(t, v, q, a, x, port, number, now, n, classes):
    """Answer the first ``n`` of the requests ``q`` that program ``number`` on ``port`` sent (see
    :mod:`softib.live.exchange_kernels`).

    ``classes`` (uint8[256]) records the classes that the program sends. ``v``:
    :class:`softib.live.verbs.traffic.Cells`. The traffic of applications is added to the counters before an agent reads
    them.
    """
    reads_counters = False
    for r in range(n):
        m = q.mad[r]
        q.status[r] = 0
        x.fate[r] = 0
        # Requests and traps carry the program's number in the upper 16 bits of their TID, so that the response can be
        # returned to it.
        if is_request(m):
            classes[m[CLASS_AT]] = 1
            m[TID_AT] = (number >> 8) & 255
            m[TID_AT + 1] = number & 255
        if m[CLASS_AT] == SUBN_DR or m[CLASS_AT] == SUBN_LID:
            x.counts[SETS] += m[METHOD_AT] == SET
            reads_counters |= m[ATTR_AT + 1] == PORT_INFO
        reads_counters |= m[CLASS_AT] == PERF
    if reads_counters and v.head[HIGH]:
        fold_cells(t, v, now)
    serve(t, port, now, q.mad64[:n], q, a.mad, a.mad64, a, x)
    address_answers(q, a, x)
    route_replies(q, x, n)


@inner
def address_answers(q, a, x):
    """Fill in the address fields of each answer that come from its request."""
    for k in range(x.served[0]):
        r = x.row[k]
        a.sqp[k], a.dqp[k] = q.dqp[r], q.sqp[r]
        a.sl[k], a.pkey_index[k] = q.sl[r], q.pkey_index[r]


@inner
def route_replies(q, x, n):
    """Write the replies, and the MADs for other programs, that result from the ``n`` served requests ``q``."""
    for i in range(x.served[0]):
        x.fate[x.row[i]] = 1 + i
    for i in range(n - x.served[1], n):
        x.fate[x.client_row[i]] = -1 - i
    replies, forwards = 0, 0
    for r in range(n):
        if x.fate[r] > 0:
            x.reply_row[replies], x.reply_answer[replies] = r, x.fate[r] - 1
            replies += 1
        elif x.fate[r] < 0:
            at = -1 - x.fate[r]
            x.forward_row[forwards], x.forward_answer[forwards] = r, at
            x.forward_port[forwards] = x.client_port[at]
            forwards += 1
        elif is_request(q.mad[r]):
            q.status[r] = TIMED_OUT
            x.reply_row[replies], x.reply_answer[replies] = r, -1
            x.counts[BOUNCES] += 1
            replies += 1
    x.counts[REPLIES], x.counts[FORWARDS] = replies, forwards
