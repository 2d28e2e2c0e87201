"""MADs of a program, answered by the fabric's agents in one call, whatever protocol it came by."""

from softib.agents.kernels.app_cells import HIGH
from softib.agents.kernels.app_traffic import fold_cells
from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.serve import serve
from softib.iba import constants as c
from softib.iba.smp import ATTR_AT, CLASS_AT, METHOD_AT, TID_AT
from softib.jit import kernel
from softib.mad.batch import SendStatus

SET, RESPONSE_BIT, TRAP_REPRESS = int(c.Method.SET), c.RESPONSE_BIT, int(c.Method.TRAP_REPRESS)
SUBN_LID, SUBN_DR, PERF = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR), int(c.MgmtClass.PERF)
PORT_INFO = int(c.SmpAttr.PORT_INFO)
TIMED_OUT = int(SendStatus.TIMEOUT)

REPLIES, FORWARDS, SETS, BOUNCES, SENT, RECEIVED, LAST = range(7)
"""What ``counts`` holds: REPLIES, FORWARDS, SENT and LAST (MADs) of the last batch, the rest summed
up until the caller clears it."""


@inner
def is_request(m):
    """True when MAD ``m`` (uint8[256]) wants an answer or a TrapRepress: a TrapRepress is a
    response (IBA 13.4.5)."""
    return not m[METHOD_AT] & RESPONSE_BIT and m[METHOD_AT] != TRAP_REPRESS


@kernel(shared=True, _nrt=False)
def answer(t, v, q, a, x, port, number, now, n, classes):
    """Answer the first ``n`` of the requests ``q`` that program ``number`` on ``port`` sent (see
    :mod:`softib.live.exchange`).

    ``classes`` (uint8[256]) remembers the classes that the program sends. ``v``:
    :class:`softib.live.verbs.traffic.Cells`; what applications sent is in the counters before
    anybody reads them.
    """
    reads_counters = False
    for r in range(n):
        m = q.mad[r]
        q.status[r] = 0
        x.fate[r] = 0
        # A request carries the program's number in the upper 16 bits of its TID, so that a response finds back; so does
        # a trap.
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
    """Fill in what of an answer's address is its request's."""
    for k in range(x.served[0]):
        r = x.row[k]
        a.sqp[k], a.dqp[k] = q.dqp[r], q.sqp[r]
        a.sl[k], a.pkey_index[k] = q.sl[r], q.pkey_index[r]


@inner
def route_replies(q, x, n):
    """Fill in what goes back to the sender and what to other programs, of the ``n`` requests ``q``
    that were served."""
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
