"""The packet layer's tables: what each column of its arrays means. Kernels take two tables, :data:`Net` (what does not change
while packets move) and :data:`State`.

Times are int64 picoseconds, sizes octets, lengths of time an octet femtoseconds. A *port* is a row of the fabric's port arrays;
a *port VL* is row ``port * V + vl`` with ``V`` data VLs in use; a *virtual output queue* (VOQ) holds what came in by one port for
one output port and VL. Rows of packets, credits and events are taken from free lists; row 0 is nobody, so that zeroed memory is
empty and pages of what never moves are never touched.
"""

from __future__ import annotations

from typing import Any

from softib.jit import table

Net: Any = table(
    "Net",
    ["port", "rare", "lft", "sl2vl_base", "sl2vl", "uniform", "vl_arb", "loss", "opt", "marking", "throttling",
     "cct", "ar_lft", "ar_group", "ar_on", "ageing", "ethernet", "buffer", "ecmp", "next_hop", "leaf", "management", "wire", "drain",
     "mft", "switch_info", "group_first", "group_port", "watch_port", "watch_qp"],
    {"port": 16},
)  # fmt: skip
"""``port`` int32[ports, P_COLUMNS], a cache line a row; ``rare`` int64[ports, RARE_COLUMNS]; ``lft`` uint8[switches, LIDs]; ``sl2vl_base``, ``sl2vl``, ``vl_arb`` as in the fabric; ``uniform``
int64[16 + 1]: VL by SL where every port has the same table, the last element says so; ``loss`` float64[ports, 2]
(``Fabric.port_loss``); ``opt`` int64[OPTIONS]. Congestion control: ``marking`` int64[ports, 4] of switch ports, ``throttling``
int64[ports, SLs, 4] and ``cct`` int64[ports, CCTIs] of adapters (one row each without it). Adaptive routing: ``ar_lft``, ``ar_group`` as in
the fabric, ``ar_on`` int64[switches] bits of SLs that may and of transports that may not, ``ageing`` int64[switches, 1] in ps.
Ethernet (one row each without it; :mod:`~softib.sim.packet.ethernet_tables`): ``ethernet`` int64[settings], ``buffer`` int64[ports, thresholds],
``ecmp`` int32[switches, switches] the row of ``next_hop`` uint8[rows, 1 + ports] (how many, and which ports), ``leaf`` int32[LIDs] the
switch of each LID.
Failures in time and the management plane (one row each without them): ``management`` int64[MG_SETTINGS], ``wire`` int32[ports] the port at the
other end of each link that is physically up (-1: none), which is enough for VL15, ``drain`` int64[ports] fs an octet that a slow port takes.
Multicast: ``mft`` and ``switch_info`` (MulticastFDBTop) as in the fabric, ``group_port`` ports of the members of each group, ascending, from ``group_first`` on.
``watch_port`` uint8[ports] and
``watch_qp`` uint8[QPs]: whose packets are written into ``State.log`` (empty: nobody's)."""

State: Any = table(
    "State",
    ["reg", "port", "count", "ready", "arb", "vl", "vl_time", "more", "voq", "packet", "when", "credit", "qp", "order", "message", "arrival", "after_arrival", "completion",
     "after_completion", "event", "bucket", "used", "heap", "due", "sorting", "digits", "far", "timer", "flow", "throttle", "bound",
     "place", "rng", "queue", "connection", "processor", "resent", "mads", "smi", "mad", "mad_row", "inbox",
     "rare_count", "sl_count", "vl_wait", "delivery", "log"],
    {"port": 24, "count": 24, "ready": 48, "vl": 16, "vl_time": 8, "more": 8, "voq": 3, "packet": 16, "when": 8, "credit": 3, "qp": 40, "message": 19, "event": 8,
     "heap": 2, "due": 2, "sorting": 2, "far": 2, "timer": 2},
)  # fmt: skip
"""``reg`` int64[REGISTERS] scalars; ``port`` int64[ports, S_COLUMNS], three cache lines a row: what every packet touches in the first; ``count`` is the
same array, named where a counter is meant, and ``ready`` int32[ports, 2 S_COLUMNS] are the same rows, seen as shorter numbers; ``arb``
int64[ports, ARB_COLUMNS]; ``vl`` int32[port VLs, V_COLUMNS], a cache line a row, and ``vl_time`` int64, the same rows seen as longer numbers,
``more`` what is seldom looked at of them; ``voq`` int32[VOQs, Q_COLUMNS];
``packet`` int32 and ``when`` int64 (the same rows, seen as longer numbers), ``credit``, ``event`` int64 pools; ``qp`` int64[QPs, QP columns]; ``order`` int64: messages by QP; ``message`` int64; ``arrival``,
``completion`` CSR offsets and ``after_…`` the messages that wait; ``bucket`` int64[BUCKETS] heads of lists of blocks;
``used`` uint64 bits of buckets with events; ``heap``, ``far``, ``timer`` int64[…, 2] binary heaps; ``due`` int64[…, 2] what the bucket of now had, in its order (``sorting``, ``digits`` to sort
it); ``flow`` int64[streams, 1], ``throttle``
int64[…, 3] of congestion control, ``bound`` int64[switches, slots, 2] flows with a port, ``place`` uint64[QPs, 16] bits of packets that
came out of order; ``rng`` uint64[1] the seed; of Ethernet
``queue`` int64[port VLs, …], ``connection`` int64[streams, …] (DCQCN) or int64[QPs, …] (TCP) and ``processor`` int64[ports, 2].
``resent`` int64[messages] packets of a message that were sent again. Of the management plane:
``mads`` int64[MADS_REGISTERS] scalars, ``smi`` int64[ports, SMI_COLUMNS], ``mad`` uint8[MADs, 256] and ``mad_row`` int64[MADs, MR_COLUMNS], row 0
nobody, ``inbox`` int64[MADs] packets that wait for an agent or a client. ``rare_count`` int64[ports, RC_COLUMNS]; with ``opt[BY_SL]`` ``sl_count`` int64[ports, 32] words sent and
received by SL and ``vl_wait`` int64[port VLs, VW_COLUMNS], else one row;
``delivery`` int64[…, 2] by multicast message and member: when it arrived (-1: not), how often.
``log`` int64[…, LOG_COLUMNS]: what watched packets did, from row 1 on."""

# -- Net.port --
(PEER, KIND, SWITCH, NUM, FS, DELAY, LATENCY, VOQ, PORTS, VLS, MTU, BASE, HOQ, LIFE, NEXT_KIND, NEXT_LATENCY,
 P_COLUMNS) = range(17)  # fmt: skip
"""Port at the other end (-1: no link); kind of port; row of its switch; portnum; fs an octet; ps of the cable; ps that its switch
takes until a packet that came in here can leave, or half of what a pair of adapters takes from memory to memory; first VOQ; ports of its node + 1; data VLs; MTU in octets on the wire; port 0 of its switch;
codes of HOQLife and of the switch's lifetime; kind and latency of the port at the other end, so that a packet
leaves without a look at its row (:func:`~softib.sim.packet.network.know_peers`)."""
# -- Net.rare --
BLOCKS, STALL, HIGH_LIMIT, TICK, REDUCE_FS, REDUCE_PS, LOW_CAP, HIGH_CAP, RARE_COLUMNS = range(9)
"""64-octet blocks of its receive buffer a VL; VLStallCount; limit of high priority in octets (-1: none); ps of a tick of
PortXmitWait; of an aggregation node: fs an octet and ps a packet that it takes to reduce
(0: another end port); entries of its arbitration tables."""
NOTHING, SWITCH_PORT, END_PORT = 0, 1, 2
"""Kinds of port. Port 0 of a switch is an end port behind the switch."""

# -- Net.opt --
(OPT_VLS, FIFO, RANDOM, ACK_EVERY, POST, FETCH, INLINE, DMA_FS, RX, RX_FS, MESSAGE_GAP, ACK_DELAY, CQE, GAP, TIMEOUT, RETRIES,
 READS, FCP, AR, PLACEMENT, CC, RAMP_FS, RAMP, PIO_FS, SMALLEST, LOSSY, BY_SL, RNR, RNR_PS, RNR_RETRIES, MULTICAST, AGGREGATES,
 OPTIONS) = range(33)  # fmt: skip
"""V; one FIFO a VL at each input instead of VOQs; which input goes next is drawn; packets between two acknowledgements; then ps of a
posted request until the adapter has it, ps more to fetch what is not inline, most octets inline, fs an octet of fetching; ps from the
last octet to memory, fs an octet of writing; ps between two requests of a port, until an acknowledgement leaves, until a program sees
a completion; octets between packets; ACK timeout in ps; retries; READs in flight; octets of a flow-control packet; adaptive routing on;
out-of-order placement; congestion control on; fs an octet of fetching and writing for the first octets of a message, and
how many these are; fs an octet that is inline; octets of the smallest packet; does any port damage packets; are data counted by SL and waiting
by VL? May receives be missing; ps of the RNR NAK timer; RNR retry count; are there groups; do aggregation nodes reduce?"""

# -- State.reg --
(NOW, WIDTH, CURRENT, HEAP_N, LATER_N, TIMER_N, PENDING, FREE_EVENT, FREE_PACKET, FREE_CREDIT, SPARE_EVENTS, SPARE_PACKETS,
 SPARE_CREDITS, EVENTS, HOPS, SENT, LEFT, IN_NETWORK, LAST, FIRST_SCOUT, SECOND_SCOUT, DUE_AT, DUE_N, NEXT_BLOCK, REGISTERS) = range(25)  # fmt: skip
"""Time; bucket width as a power of two; number of the current bucket; entries of the heaps; events in buckets; heads of free lists and
how many are in them; events handled; packet hops; packets sent; messages not done; packets in the network; time of the last thing
that happened. Events of the next two buckets that memory is
fetched for (:mod:`~softib.sim.packet.kernels.ahead`). The next row of ``due``, and how many it has. The block of the next bucket that memory is fetched for, where this one holds many."""

# -- State.port --
(FREE, ARMED, WAITING, _, XMIT_OCTETS, XMIT_PACKETS, RCV_OCTETS, RCV_PACKETS,
 RX_FREE, DMA_FREE, GATE, WAIT_TICKS, RCV_ERRORS, RELAY_ERRORS, HOQ_DISCARDS, LIFE_DISCARDS,
 INACTIVE, TOO_LONG, RCV_FECN, RCV_BECN, MARKED) = range(21)  # fmt: skip
S_COLUMNS = 24
"""When the link is free; time + 1 of the event that looks at it again (0: none); time + 1 since when it has data and sends none; the two of
``ready``; counters; when the end port's memory, its fetching and its next request are free; counters again."""
READY, DEBT = 6, 7
"""Of ``State.ready``: bits of VLs with data; octets of flow control packets to be sent."""
COUNTED = (*range(XMIT_OCTETS, RCV_PACKETS + 1), *range(WAIT_TICKS, MARKED + 1))
"""Columns of ``State.port`` that are counters."""

# -- State.arb --
HIGH_AT, HIGH_LEFT, LOW_AT, LOW_LEFT, HIGH_SENT, CHOSEN, DRAINED, ARB_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 8
"""Places and what is left of the arbitration tables; octets of high priority since the last low one; was it the high table that
chose; until when a slow port drains what it has."""

# -- State.vl --
RING, FCTBS, FCCL, WAITS, QUEUED, CREDITS, LAST_CREDIT, FIRST_BLOCKS, SECOND_BLOCKS = range(9)
V_COLUMNS = 16
"""Who sends next goes round: the last of the ring (VOQ or stream + 1); credit arithmetic of FCTBS and FCCL, modulo 4096; bits STARVED (somebody
waits for a credit), IS_STALLED and HOQ_DISCARDED (by HOQLife, and nothing was sent since); blocks queued. Credits on the way by their time: blocks of the first and
of the second (0: there is none), then a list in ``State.credit``, first and last. More than two are seldom on a cable, so a packet finds them in the line that it touches anyway."""
HEAD_SINCE, FIRST_AT, SECOND_AT = 5, 6, 7
"""Of ``State.vl_time``, which is the last 24 octets of the row: since when this packet is at the head; when the two credits come."""
STARVED, IS_STALLED, HOQ_DISCARDED = 1, 2, 4
# -- State.more --
(STALLS, STALLED, CONTROL, LAST_CONTROL, FIRST, LAST_IN, MARK, LEAVING, MORE_COLUMNS) = range(9)  # fmt: skip
"""HOQ drops in a row; time until when the VL is stalled; own acknowledgements, first and last; in FIFO mode the input's queue,
first and last; packets since a mark; in FIFO mode: one is leaving."""

# -- State.voq --
Q_HEAD, Q_TAIL, Q_NEXT, Q_COLUMNS = range(4)

# -- State.packet --
NEXT, QP, PSN, OCTETS, DLID, LEVEL, VL, IN, WHAT, FLAGS, OUT, BEHIND, PK_COLUMNS = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    16,
)
"""Next in its queue; QP (stream); sequence number, not wrapped; octets on the wire; destination; SL; VL; port that it came in by; what
it is; flags; in FIFO mode output port * 16 + VL, and the next of its input."""
TAIL, ENTERED = 6, 7
"""Of ``State.when``, which is the last 16 octets of a packet's row: when its last octet is there; when it entered the switch."""
DATA, ACK, NAK, CNP, READ_REQUEST, READ_RESPONSE, RNR_NAK = range(7)
LAST_OF_MESSAGE, FECN, ASKS_ACK, OUT_OF_ORDER, BAD, COPY = 1, 2, 4, 8, 16, 32
"""Of ``FLAGS``; ``BAD``: a bit is wrong, and its sender may have ended it with EBP, the delimiter of a bad packet;
``COPY``: it waits in a switch, and the packet that has its place in the buffer is ``BEHIND``, which counts its copies in ``OUT``."""
MULTICAST_LID = 0xC000
"""The first LID of multicast groups."""

# -- State.event --
E_NEXT, E_COUNT, E_FIRST, EVENT_COLUMNS = 0, 1, 2, 8
E_MANY = 3
"""A bucket is a list of blocks, each a cache line: the next block, how many events it has, and up to three (time, what)."""

# -- State.credit --
C_TIME, C_BLOCKS, C_NEXT, CREDIT_COLUMNS = range(4)

# -- State.qp --
(SRC, DST, BACK_LID, SL, OUT_VL, BACK_VL, PAYLOAD, SERVICE, FIRST_MESSAGE, END_MESSAGE, CURRENT_MESSAGE, NEXT_PSN,
 DONE_MESSAGE, ACKED, IN_RING, RING_NEXT, NOT_BEFORE, TIMED, TRIES, EXPECTED, RX_MESSAGE, NAKED, UNACKED, RESPONSE,
 RESPONSE_END, RESPONSE_PSN, RESPONSE_RING, RESPONSE_NEXT, READS_OUT, PS_PACKET, PROGRESS, WAKE, RECOVERS, FETCHED,
 BACK_FETCHED, LAST_MESSAGE, BACK_NOT_BEFORE, BACK_PS_PACKET, REPOST, RNR_TRIES, QP_COLUMNS) = range(41)  # fmt: skip
RECEIVES_FREE, RECEIVES_AT, RECEIVES_LAST, OUT_OF_BUFFER = RNR_TRIES, RECOVERS, PROGRESS, UNACKED
"""Of UC and UD, in columns that only RC has a use for: receives that are posted; the message whose receive was taken first of those that are not posted again yet, + 1 (0: none), and the
one whose receive was taken last; messages that found none (``out_of_buffer`` of mlx5's port counters)."""
NEEDS_RECEIVE, HAS_RECEIVE = -1, -2
"""Of ``M_RECEIVE``, UC and UD; HAS_RECEIVE - (m + 1): the next receive was taken by message m."""

# -- State.message --
(M_QP, M_SIZE, M_PSN, M_PACKETS, M_OPCODE, M_POSTED, M_NEEDS, M_AFTER, M_START, M_DELAY, M_BEGAN, M_ARRIVED, M_COMPLETED,
 M_LID, M_RECEIVE, M_GROUP, M_DELIVERY, M_VALUE, M_IMMEDIATE, M_COLUMNS) = range(20)  # fmt: skip
"""``M_POSTED``: when the adapter may begin, + 1 (0: not posted yet); ``M_NEEDS``: messages that it waits for; ``M_AFTER``: the last of
them; times are -1 where they did not happen; ``M_LID``: the destination; ``M_RECEIVE``: the message whose
receive it takes, + 1 (0: there is one); ``M_GROUP``: its multicast group + 1 (0: none), ``M_DELIVERY``: its first row of ``delivery``;
``M_VALUE``: what it carries, where switches reduce; ``M_IMMEDIATE``: a WRITE with immediate data."""

# -- State.rare_count: what few packets count --
(REMOTE_ERRORS, RNR_NAKS, MC_XMIT, MC_RCV, RC_COLUMNS) = range(5)
"""PortRcvRemotePhysicalErrors; RNR NAKs received; multicast packets sent and received."""
# -- State.vl_wait --
W_TICKS, W_SINCE, W_BUSY, VW_COLUMNS = range(4)
"""PortVLXmitWait; time + 1 since when the VL has data and sends none (0: it does not wait); when its last packet has left."""

# -- congestion control and adaptive routing --
MARK_THRESHOLD, MARK_PACKET, MARK_RATE, MARK_VICTIM = range(4)
"""Blocks queued from which a switch port marks (0: never); octets of the smallest packet that it marks; packets that it leaves between two
marks; does it mark without credits?"""
CC_TIMER, CC_INCREASE, CC_LIMIT, CC_MIN = range(4)
"""ps until the CCTI falls; what a BECN adds; the largest and the smallest CCTI."""
F_ROW = 0
"""Of a stream: its row of ``throttle`` (its own, or that of its port's SL)."""
F_CCTI, F_DELAY, F_TIMED = range(3)
"""CCTI; how long a packet's end is followed by nothing, in thousandths of the packet's time; does a timer run?"""
AGEING = 0
BOUND_FLOW, BOUND_PS, BOUND_SLOTS = 0, 1, 256
"""(stream + 1) << 8 | portnum; when it last sent; flows that a switch remembers."""
WINDOW_PACKETS = 1024
"""Packets ahead of the expected one that a receiver places out of order."""

# -- State.log --
(L_PORT, L_NOW, L_START, L_END, L_FLOW, L_FIELDS, L_CAME_IN, L_ENTERED, LOG_COLUMNS) = range(9)
"""Port << 4 and what happened there (``LOG_…``); when it was decided; sent: the first and the last octet's time (received: out of
the receive buffer, in memory; lost: its column of ``count``); stream << 32 | PSN; octets, DLID << 16, SL << 32, VL << 36, kind << 40,
flags << 48; the port that it came in by, and when it entered the switch."""
L_ROWS = 0
"""Of row 0: how many rows are written."""
LOG_SENT, LOG_RECEIVED, LOG_LOST, LOG_STARVED, LOG_MAD = range(5)
LOG_MAD_AT, LOG_MAD_ROWS = 1, 5
"""A MAD that was sent is followed by rows of LOG_MAD, which hold its 256 octets as they travelled, in their columns from LOG_MAD_AT on; its stream is -1, and
``L_ENTERED`` its source LID."""

# -- events --
ARRIVE, LOOK, RECEIVE, POSTED, STREAM, ANSWER, TIMER, NEXT_IN, FASTER, COPIES = range(10)
ENTER = 15
"""A packet's header is through a switch; a port looks what to send; a packet is whole at an end port; a message may be posted; a stream
may go on; an answer leaves; an ACK timeout; in FIFO mode the next of an input; the CCTI timer; copies of a multicast packet are made; a packet for
the switch itself is whole at the port that it came in by."""
BUCKETS = 1 << 17
BLOCK = 64
WRAP, WINDOW = 4095, 2048
"""FCTBS and FCCL have 12 bits, and a packet fits when FCCL is at most 2048 blocks ahead (IBA chapter 7, flow control)."""
DONE, MORE, STUCK, GROW, TIME_OVER, GOES_ON = range(6)
"""What the loop returns: every message is done; call again; nothing can move; a pool is short; the time is over; go on."""
MARGIN = 64
"""Rows that one event may take of each pool."""

NEVER = 1 << 62

# -- failures in time and the management plane --
MG_ON, MG_SLOW, MG_BUFFERS, MG_AGENT, MG_FORWARD, MG_SETTINGS = range(6)
"""Of ``Net.management``: do links change and MADs travel; does a port drain slowly; packets that the VL15 buffer of a port holds; ps that a
device's management processor takes to answer a MAD, and to pass a directed one on."""
MADS_FREE, MADS_SPARE, MADS_INBOX, MADS_LOST, MADS_SENT, MADS_REGISTERS = range(6)
"""Of ``State.mads``: head of the list of free rows and how many are in it; packets in the inbox; MADs that were lost, and that were sent."""
SMI_HEAD, SMI_LAST, SMI_HELD, SMI_DROPPED, SMI_BUSY, SMI_CUT, SMI_COLUMNS = range(7)
"""Of ``State.smi``: packets that wait for VL15 of the port, first and last; packets in its VL15 receive buffer; VL15Dropped; until when the
processor behind this end port is busy; packets that were lost on the cable into the port."""
MR_NEXT, MR_SOURCE, MR_SLID, MR_COLUMNS = range(4)
"""Of ``State.mad_row``: next free row; the end port that sent it, and its LID (of a directed one the permissive LID)."""
SMP, GMP = 30, 31
"""Kinds of packet (``WHAT``): a MAD on VL15, a MAD on a data VL; its row of ``State.mad`` is its ``PSN``."""
CUT = 1 << 20
"""Of ``FLAGS``: the cable was pulled, or its node lost its power, while the packet was on its way."""
MANAGE, AGENT = 13, 14
"""Events: a packet on VL15 is at a port (and one that was cut is gone); a management processor is done with a MAD. They wait with the timeouts, and so does the end of a
MAD on a data VL."""
MANAGED = 7
"""What the loop returns when a MAD waits in the inbox."""
VL15 = 15
