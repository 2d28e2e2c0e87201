"""Ethernet: settings and buffers of switches, TCP. Rates are kb/s, shares and probabilities
millionths."""

from __future__ import annotations

from softib.jit.rows import Rows, i8

__all__ = ["BUFFER", "PROCESSOR", "QUEUE", "SETTINGS", "TCP"]

SETTINGS = Rows(
    "Settings of an Ethernet run.",
    i8("pfc", "flag", "Priority flow control is on."),
    i8("ecn", "flag", "Switches mark packets (ECN)."),
    i8("cut_through", "flag", "Switches cut through; otherwise they store and forward."),
    i8("seed", "number", "Seed of hashes."),
    i8("pfc_reaction_ps", "ps", "Time a port takes to obey a pause frame."),
    i8("p_max", "millionths", "RED: probability of a mark at Kmax."),
    i8("payload", "bytes", "TCP: largest payload of a segment; RoCE: path MTU."),
    i8("dctcp", "flag", "DCTCP instead of Reno."),
    i8("dctcp_gain", "millionths", "DCTCP: g."),
    i8("first_window", "segments", "TCP: first congestion window."),
    i8("window_most", "segments", "TCP: largest window."),
    i8("rto_min_ps", "ps", "TCP: smallest RTO."),
    i8("rto_first_ps", "ps", "TCP: first RTO."),
    i8("rto_max_ps", "ps", "TCP: largest RTO."),
    i8("delayed_ack_ps", "ps", "TCP: delay of an acknowledgement."),
    i8("send_fs", "fs/byte", "Kernel's stack: time of a byte of one connection at the sender."),
    i8("stack_send_ps", "ps", "Kernel's stack: time of a message at the sender."),
    i8("stack_fs", "fs/byte", "Kernel's stack: time of a byte at the receiver."),
    i8("stack_receive_ps", "ps", "Kernel's stack: time of a message at the receiver."),
    i8("segment_ps", "ps", "Kernel's stack: time of a segment at either end."),
    i8("cores", "count", "Processors that a host gives to the stack."),
    i8("reorder_ps", "ps", "Receivers that reorder: time after which a missing packet counts as lost."),
    i8("ecmp", "flag", "Flows are hashed over shortest paths; otherwise the forwarding tables are used."),
    i8("share", "millionths", "Dynamic threshold: alpha."),
    i8("jitter_ps", "ps", "Largest time between an acknowledgement and the segments that it permits."),
    i8("interrupt_ps", "ps", "Smallest time between two interrupts of a host's port; 0: one interrupt per frame."),
)

BUFFER = Rows(
    "Buffer thresholds of a port.",
    i8(
        "xoff",
        "bytes",
        "Bytes of an ingress port and priority above which the port requests a pause; 0: the dynamic threshold.",
    ),
    i8("xon_gap", "bytes", "The port ends a pause when its bytes are this far below XOFF."),
    i8("headroom", "bytes", "Additional bytes that it can store after its request for a pause."),
    i8("queue_most", "bytes", "Largest egress queue without flow control; 0: the dynamic threshold."),
    i8("shared", "bytes", "Buffer that all ports of the switch share."),
    i8("k_min", "bytes", "RED: Kmin."),
    i8("k_max", "bytes", "RED: Kmax."),
    i8("refresh_ps", "ps", "Time between two pause frames while a pause lasts."),
    i8("line_kbps", "kb/s", "Rate of the link."),
    i8("clock_ppb", "billionths", "Deviation of its device's clock from nominal; positive: slower."),
)

QUEUE = Rows(
    "Port VLs of an Ethernet switch.",
    i8("ingress", "bytes", "Bytes in the buffer that were received through this port."),
    i8("xoff_sent", "flag", "A pause was requested from the other end."),
    i8("refresh_at", "ps", "Time of the next request."),
    i8("egress", "bytes", "Bytes queued for this port; for port 0 of a switch, those queued in the whole switch."),
    i8("paused", "ps + 1", "Start of the pause of this port; 0: it is not paused."),
    i8("paused_ps", "ps", "Total time of its pauses."),
    i8("pauses_sent", "frames", "Pause frames sent."),
    i8("pauses_received", "frames", "Pause frames received."),
    i8("tail_drops", "packets", "Dropped at a full queue."),
    i8("headroom_drops", "packets", "Dropped for lack of headroom."),
    i8("ecn_marked", "packets", "Marked."),
    i8("peak_egress", "bytes", "Largest egress."),
    i8("peak_ingress", "bytes", "Largest ingress."),
    i8("queue_area", "1024 byte ps", "Integral of egress over time."),
    i8("queue_since", "ps", "Time up to which queue_area is integrated."),
    i8("xoff_ingress", "bytes", "Value of ingress when the pause was requested."),
    i8("clock_fs", "fs", "Part below 1 ps of the deviation of its device's clock, carried over to the next frame."),
)

TCP = Rows(
    "TCP connections.",
    i8("window", "segments / 1000", "Congestion window."),
    i8("threshold", "segments / 1000", "Slow-start threshold."),
    i8("recover", "segment + 1", "Segment that ends the recovery; 0: no recovery."),
    i8("timed_out", "flag", "The recovery began with an RTO, so the window grows during it."),
    i8("retransmit", "segment + 1", "Segment to send again; 0: none."),
    i8("forced", "flag", "The next segment is sent regardless of the window."),
    i8("sacked", "segments", "Segments that were acknowledged selectively."),
    i8("lost", "segments", "Lost segments that have not been sent again yet."),
    i8("delivered", "ps + 1", "Latest sending time of a segment that has arrived."),
    i8("delivered_rtt", "ps", "Round trip of that segment."),
    i8("least_rtt", "ps", "Least round trip."),
    i8("probe", "segment + 1", "Segment that ends a tail loss probe; 0: no probe."),
    i8("probe_resent", "flag", "The probe was a repeated segment."),
    i8("first_slot", "row of State.segment", "First of its rows."),
    i8("slots", "segments", "Number of its rows in State.segment (a power of two), minus 1."),
    i8("srtt", "ps", "Smoothed round trip."),
    i8("rttvar", "ps", "Its variation."),
    i8("rto", "ps", "Retransmission timeout."),
    i8("rto_at", "ps", "Time at which its timer expires; 0: it does not run."),
    i8("timer", "kind", "Kind of the timer: 0: RTO; 1: probe; 2: segments that count as lost if they do not arrive."),
    i8("unacked", "segments", "Segments that are not acknowledged yet."),
    i8("delayed_at", "ps", "Time of the delayed acknowledgement; 0: none."),
    i8("echo", "ps", "Timestamp to echo."),
    i8("alpha", "millionths", "DCTCP: alpha."),
    i8("marked_acks", "segments", "DCTCP: marked segments that were acknowledged in this window."),
    i8("all_acks", "segments", "DCTCP: all segments that were acknowledged in this window."),
    i8("window_end", "segment", "DCTCP: segment that ends its window."),
    i8("cut_end", "segment", "Segment whose acknowledgement allows the next reduction of the window."),
    i8("sender_free", "ps", "Time at which the sender's processor becomes free."),
    i8("receiver_free", "ps", "Time at which the receiver's processor becomes free."),
    i8("retransmits", "segments", "Segments sent again."),
    i8("timeouts", "count", "Retransmission timeouts."),
    i8("ecn_seen", "flag", "The last segment was marked."),
    i8("furthest", "segments", "Position after the last segment that the receiver has received."),
    i8("block_begin", "segment", "Receiver: first segment of the last block that arrived out of order."),
    i8("block_end", "segment", "Receiver: position after the last segment of that block."),
)

PROCESSOR = Rows(
    "The kernel's stack of the host behind a port.",
    i8("send_ps", "ps", "Processor time to send."),
    i8("receive_ps", "ps", "Processor time to receive."),
    i8("interrupt_at", "ps + 1", "Time of its port's last or next interrupt; 0: none."),
)
