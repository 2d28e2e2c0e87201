"""What the columns of Ethernet's arrays mean, beside those of :mod:`~softib.sim.packet.tables`: ``Net.ethernet``, ``Net.buffer``,
``Net.ecmp``, ``Net.next_hop``, ``Net.leaf``, ``State.queue`` and ``State.connection``.

Rates are kb/s, shares and probabilities millionths, congestion windows thousandths of a segment.
"""

from __future__ import annotations

# -- Net.ethernet: int64[E_SETTINGS] of the run --
(PFC, ECN, CUT_THROUGH, SEED, PFC_REACTION_PS, P_MAX, CNP_PS, ALPHA_PS, RATE_PS, BYTE_COUNTER, GAIN, RATE_AI, RATE_HAI,
 FAST_RECOVERY, RATE_MIN, PAYLOAD_OCTETS, DCTCP, DCTCP_GAIN, FIRST_WINDOW, WINDOW_MOST, RTO_MIN_PS, RTO_FIRST_PS, RTO_MAX_PS,
 DELAYED_ACK_PS, SEND_FS, STACK_SEND_PS, STACK_FS, STACK_RECEIVE_PS, SEGMENT_PS, CORES, ECMP, SHARE, JITTER_PS, INTERRUPT_PS, E_SETTINGS) = range(35)  # fmt: skip
"""Priority flow control on; ECN marking on; switches cut through; seed of hashes; ps that a port takes to obey a pause frame; RED's probability at
Kmax. DCQCN: ps between two CNPs of a flow; ps of the timers of alpha and of the rate; octets of the byte counter; g; additive and hyper
increase; F; the least rate. TCP: largest payload of a packet (RoCE: path MTU); DCTCP instead of NewReno, and its g; first and largest window in
segments; the RTO's least, first and largest value; delay of an acknowledgement; then the costs of the kernel's stack: fs an octet of one
connection at the sender; ps of a message at the sender; fs an octet at the receiver; ps of a message at the receiver; ps of a segment
at either; cores. ECMP on (off: the forwarding tables); alpha of the dynamic threshold; most ps between
an acknowledgement and what it lets go; least ps between two interrupts of a host's port (0: one for each frame)."""
MILLION = 1_000_000

# -- Net.buffer: int64[ports, B_COLUMNS] --
XOFF, XON_GAP, HEADROOM, QUEUE_MOST, SHARED, K_MIN, K_MAX, REFRESH_PS, LINE_KBPS, B_COLUMNS = range(10)
"""Octets of one ingress port and priority above which it asks for a pause (0: the dynamic threshold); how far below it ends one; octets that
it may hold above what it held when it asked; the most of an egress queue without flow control (0: the dynamic threshold); octets that all ports
of the switch share; RED's thresholds; ps between two pause frames while a pause lasts; rate of the link."""

# -- State.queue: int64[port VLs, Q_ETHERNET] --
(INGRESS, XOFF_SENT, REFRESH_AT, EGRESS, PAUSED, PAUSED_PS, PAUSES_SENT, PAUSES_RECEIVED, TAIL_DROPS, HEADROOM_DROPS, ECN_MARKED,
 PEAK_EGRESS, PEAK_INGRESS, QUEUE_AREA, QUEUE_SINCE, XOFF_INGRESS, Q_ETHERNET) = range(17)  # fmt: skip
"""Octets in the buffer that came in by this port; is the other end asked to pause; when it is asked again; octets queued to leave by this
port; since when this port is paused, + 1; ps that it was; pause frames sent and received; packets dropped at a full queue, and for want of
headroom; packets marked; the largest queue and the largest ingress; the integral of the queue over time in 1,024 octet ps, and until when it is;
what ingress held when it asked. ``EGRESS`` of a switch's port 0 is what the whole switch holds."""

# -- State.connection of RoCE: int64[streams, D_COLUMNS] --
(LIMITED, RATE_NOW, RATE_TARGET, ALPHA, ALPHA_AT, RATE_AT, BYTES, BYTE_STEPS, TIME_STEPS, CNP_SENT, CNPS, D_COLUMNS) = (
    range(12)
)
"""Is the reaction point limiting; current and target rate; alpha; when alpha falls and the rate rises next; octets since the byte counter's
last step; steps of byte counter and timer; when the notification point last sent a CNP, + 1; CNPs that arrived."""

# -- State.connection of TCP --
(WINDOW, THRESHOLD, CAREFUL, DUP_ACKS, RECOVER, RETRANSMIT, SRTT, RTTVAR, RTO, RTO_AT, HIGHEST, SEGMENTS_UNACKED, DELAYED_AT, ECHO,
 ALPHA_T, MARKED_ACKS, ALL_ACKS, WINDOW_END, CUT_END, SENDER_FREE, RECEIVER_FREE, RETRANSMITS, TIMEOUTS, ECN_SEEN, FURTHEST,
 RELOST_AFTER, T_COLUMNS) = range(27)  # fmt: skip
"""Congestion window and slow-start threshold; the segment up to which a timeout forbids fast retransmit; duplicate acknowledgements in a row; the segment that ends a recovery, + 1 (0: in
none); a segment to send again, + 1; smoothed round trip, its variation and the RTO in ps; when the RTO is over; segments ever sent;
segments that are not acknowledged yet; when the delayed acknowledgement is due (0: none); timestamp to echo; DCTCP's alpha, marked and all
acknowledged segments, and the segment that ends its window; segment that ends the last cut; when the sender's and the receiver's CPU are free; segments
sent again; timeouts; the last segment was marked; segments up to which the receiver saw any; duplicates
after which what was sent again counts as lost again."""

# -- State.processor: int64[ports, CPU_COLUMNS] --
CPU_SEND, CPU_RECEIVE, INTERRUPT_AT, CPU_COLUMNS = range(4)
"""ps of CPU at this host to send and to receive; when its port interrupted last or will next, + 1 (0: never)."""

# -- events (kinds 11 and 12 of the packet layer) --
PAUSE_FRAME, ETHERNET_TIMER = 11, 12
"""A pause frame was obeyed at a port (payload: priority << 1 | does it pause); a pause is to be asked for again (payload: priority), or an
acknowledgement was delayed long enough (payload: 16 + queue pair)."""
