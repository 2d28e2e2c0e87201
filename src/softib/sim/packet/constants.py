"""Named values in the packet layer's tables: kinds of ports, packets and events; marks; sizes."""

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
"""Marks of a packet. BAD: a bit is wrong; its sender may have ended it with EBP, the delimiter of a
bad packet. COPY: a copy that waits in a switch; its ``behind`` is the packet that occupies the receive buffer for all
copies and counts them in ``out``. ECN_ECHO: an acknowledgement of a marked packet, over Ethernet."""
CUT = 1 << 20
"""Mark of a packet: the cable was pulled, or its node lost its power, while the packet was in
transit."""
MULTICAST_LID = 0xC000
"""The first LID of multicast groups."""

RCV_ERRORS, RELAY_ERRORS, HOQ_DISCARDS, LIFE_DISCARDS, INACTIVE, TOO_LONG = range(6)
"""Reasons for the loss of a packet, each with a counter at a port."""

ARRIVE, LOOK, RECEIVE, POSTED, STREAM, ANSWER, TIMER, NEXT_IN, FASTER, COPIES = range(10)
"""Kinds of event. ARRIVE: a packet's header has passed a switch. LOOK: a port checks what it can
send. RECEIVE: a packet has fully arrived at an end port. POSTED: a message may be posted. STREAM: a
stream may continue. ANSWER: an answer leaves. TIMER: an ACK timeout. NEXT_IN: in FIFO mode, the
next packet of an input. FASTER: the CCTI timer. COPIES: copies of a multicast packet are made."""
PAUSE_FRAME, ETHERNET_TIMER = 11, 12
"""Kinds of event over Ethernet. PAUSE_FRAME: a pause frame takes effect at a port (payload:
priority << 1, | 1 if it pauses). ETHERNET_TIMER: a pause must be requested again (payload:
priority), or a delayed acknowledgement is due (payload: 16 + queue pair)."""
MANAGE, AGENT = 13, 14
"""Kinds of event of the management plane. MANAGE: a packet on VL15 is at a port (or a cut packet
disappears). AGENT: a management processor has finished a MAD. These events are in the heap of timeouts, and so is the
event that finishes a MAD on a data VL."""
ENTER = 15
"""Kind of event: a packet for the switch itself has fully arrived at its ingress port."""
BUCKETS = 1 << 17
EVENTS_A_BLOCK = 3
"""Number of events in a block of a bucket's list: one cache line."""
NEVER = 1 << 62
MARGIN = 64
"""Maximum number of rows that one event may allocate from each pool."""

DONE, MORE, STUCK, GROW, TIME_OVER, GOES_ON = range(6)
"""Return values of the loop. DONE: every message is done. MORE: call again. STUCK: no packet can ever move again. GROW:
a pool is nearly empty. TIME_OVER: the time limit is reached. GOES_ON: continue."""
MANAGED = 7
"""Return value of the loop in runs with MADs: a MAD waits in the inbox."""

STARVED, STALLED, DISCARDED = 1, 2, 4
"""Bits of ``State.vl.waits``. STARVED: the VL waits for a credit. STALLED: it is stalled.
DISCARDED: since the last packet was sent, HOQLife has discarded one."""
WRAP = 4095
"""Mask of FCTBS and FCCL, which have 12 bits (IBA chapter 7, flow control)."""
VL15 = 15

NEEDS_RECEIVE, HAS_RECEIVE = -1, -2
"""Values of ``State.message.receive`` for UC and UD. HAS_RECEIVE - (m + 1): message m took the next receive."""
WINDOW_PACKETS = 1024
"""A receiver places packets out of order if their PSN is at most this far from the expected one."""
BOUND_SLOTS = 256
"""Number of flows whose port a switch stores (adaptive routing, BOUNDED)."""

INTERRUPTED = -1
"""Status of a run that Ctrl-C ended, in addition to the statuses of the loop."""
LOG_SENT, LOG_RECEIVED, LOG_LOST, LOG_STARVED, LOG_MAD = range(5)
"""Kinds of rows in the log: a packet was sent, received or lost; a VL lacks credits; bytes of the
MAD in the row before."""
LOG_MAD_ROWS, LOG_MAD_VALUES = 5, 7
"""Number of log rows for a MAD of 256 bytes, and of 8-byte values in each."""

MILLION = 1_000_000
