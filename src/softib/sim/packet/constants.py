"""Named values in the packet layer's tables: kinds of ports, packets and events, marks, and sizes."""

from __future__ import annotations

from softib.sim.credits import BLOCK as BLOCK
from softib.sim.credits import WINDOW as WINDOW

NOTHING, SWITCH_PORT, END_PORT = range(3)
"""Kinds of port."""

DATA, ACK, NAK, CNP, READ_REQUEST, READ_RESPONSE, RNR_NAK = range(7)
"""Kinds of packet."""
SMP, GMP = 30, 31
"""Kinds of packet: a MAD on VL15, a MAD on a data VL."""
LAST_OF_MESSAGE, FECN, ASKS_ACK, OUT_OF_ORDER, BAD, COPY, ECN_ECHO = 1, 2, 4, 8, 16, 32, 64
"""Marks of a packet. BAD: a bit is wrong, and its sender may have ended it with EBP, the delimiter
of a bad packet. COPY: it waits in a switch; ``behind`` is the packet that holds its place in the
buffer and counts its copies in ``out``. ECN_ECHO: an acknowledgement over Ethernet of a marked
packet."""
CUT = 1 << 20
"""Mark of a packet: the cable was pulled, or its node lost its power, while the packet was in
transit."""
MULTICAST_LID = 0xC000
"""The first LID of multicast groups."""

RCV_ERRORS, RELAY_ERRORS, HOQ_DISCARDS, LIFE_DISCARDS, INACTIVE, TOO_LONG = range(6)
"""Reasons for the loss of a packet, each with a counter at a port."""

ARRIVE, LOOK, RECEIVE, POSTED, STREAM, ANSWER, TIMER, NEXT_IN, FASTER, COPIES = range(10)
"""Kinds of event: a packet's header has passed a switch; a port checks what it can send; a packet has
fully arrived at an end port; a message may be posted; a stream may continue; an answer leaves; an ACK
timeout; in FIFO mode, the next packet of an input; the CCTI timer; copies of a multicast packet are
made."""
PAUSE_FRAME, ETHERNET_TIMER = 11, 12
"""Kinds of event over Ethernet: a pause frame takes effect at a port (payload: priority << 1 | 1 if
it pauses); a pause must be requested again (payload: priority), or a delayed acknowledgement is due
(payload: 16 + queue pair)."""
MANAGE, AGENT = 13, 14
"""Kinds of event of the management plane: a packet on VL15 is at a port (or a cut packet
disappears); a management processor has finished a MAD. They are in the heap of timeouts, as is the
end of a MAD on a data VL."""
ENTER = 15
"""Kind of event: a packet for the switch itself has fully arrived at its ingress port."""
BUCKETS = 1 << 17
EVENTS_A_BLOCK = 3
"""Events in a block of a bucket's list, one cache line."""
NEVER = 1 << 62
MARGIN = 64
"""Rows of each pool that one event may allocate."""

DONE, MORE, STUCK, GROW, TIME_OVER, GOES_ON = range(6)
"""Return values of the loop: every message is done; call again; nothing can move; a pool is nearly
empty; the time limit is reached; continue."""
MANAGED = 7
"""Return value of the loop: a MAD waits in the inbox."""

STARVED, STALLED, DISCARDED = 1, 2, 4
"""Bits of ``State.vl.waits``: the VL waits for a credit; it is stalled; HOQLife discarded a packet,
with no packet sent since."""
WRAP = 4095
"""FCTBS and FCCL have 12 bits (IBA chapter 7, flow control)."""
VL15 = 15

NEEDS_RECEIVE, HAS_RECEIVE = -1, -2
"""Of ``State.message.receive``, UC and UD; HAS_RECEIVE - (m + 1): the next receive was taken by
message m."""
WINDOW_PACKETS = 1024
"""How far ahead of the expected packet a receiver places packets out of order."""
BOUND_SLOTS = 256
"""Flows that a switch remembers (adaptive routing, BOUNDED)."""

INTERRUPTED = -1
"""Status of a run that Ctrl-C ended, in addition to those of the loop."""
LOG_SENT, LOG_RECEIVED, LOG_LOST, LOG_STARVED, LOG_MAD = range(5)
"""Kinds of a row of the log: a packet was sent, received or lost; a VL lacks credits; bytes of the
MAD of the row before."""
LOG_MAD_ROWS, LOG_MAD_VALUES = 5, 7
"""Log rows of a MAD of 256 bytes, and 8-byte values in each."""

MILLION = 1_000_000
