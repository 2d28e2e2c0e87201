"""Ports, VLs, queues and packets while they move, and the adaptive and throttled flows of switches
and adapters."""

from __future__ import annotations

from softib.jit.rows import Rows, i4, i8

__all__ = [
    "ARBITER",
    "ARBITRATION",
    "BOUND_FLOW",
    "BY_SL",
    "COUNTERS",
    "DELIVERY",
    "PACKET",
    "PORT_STATE",
    "RARE_COUNT",
    "THROTTLE",
    "VL",
    "VL_MORE",
    "VL_WAIT",
    "VOQ",
]

PORT_STATE = Rows(
    "Ports: state and counters. Every packet uses the first of the three cache lines.",
    i8("free_at", "ps", "Time at which the link becomes free."),
    i8("armed", "ps + 1", "Time of the event at which the next packet to send is selected; 0: none."),
    i8("waiting", "ps + 1", "Time since which it has had data without sending; 0: it does not wait."),
    i4("ready", "bits of VLs", "VLs with something to send."),
    i4("debt", "bytes", "Flow-control packets to be sent."),
    i8("xmit_octets", "bytes", "Sent."),
    i8("xmit_packets", "packets", "Sent."),
    i8("rcv_octets", "bytes", "Received."),
    i8("rcv_packets", "packets", "Received."),
    i8("rx_free", "ps", "Time at which the end port can write to memory again."),
    i8("dma_free", "ps", "Time at which the end port can fetch from memory again."),
    i8("gate", "ps", "Earliest time of the end port's next request."),
    i8("wait_ticks", "ticks", "PortXmitWait."),
    i8("rcv_errors", "packets", "PortRcvErrors."),
    i8("relay_errors", "packets", "PortRcvSwitchRelayErrors."),
    i8("hoq_discards", "packets", "Discarded after HOQLife (PortXmitDiscards)."),
    i8("life_discards", "packets", "Discarded after the switch's lifetime (PortXmitDiscards)."),
    i8("inactive", "packets", "Discarded because the link was down (PortXmitDiscards)."),
    i8("too_long", "packets", "Discarded because they exceed the MTU (PortXmitDiscards)."),
    i8("rcv_fecn", "packets", "Received with FECN."),
    i8("rcv_becn", "packets", "Received with BECN."),
    i8("marked", "packets", "Marked with FECN."),
    size=192,
)

COUNTERS = (
    "xmit_octets",
    "xmit_packets",
    "rcv_octets",
    "rcv_packets",
    "wait_ticks",
    "rcv_errors",
    "relay_errors",
    "hoq_discards",
    "life_discards",
    "inactive",
    "too_long",
    "rcv_fecn",
    "rcv_becn",
    "marked",
)
"""Columns of :data:`PORT_STATE` that are counters."""

RARE_COUNT = Rows(
    "Counters of ports that few packets change.",
    i8("remote_errors", "packets", "PortRcvRemotePhysicalErrors."),
    i8("rnr_naks", "packets", "RNR NAKs received."),
    i8("multicast_xmit", "packets", "Multicast packets sent."),
    i8("multicast_rcv", "packets", "Multicast packets received."),
)

BY_SL = Rows(
    "Optional counters of a port by SL (PortXmitDataSL, PortRcvDataSL).",
    i8("sent", "words of 4 bytes", "Sent."),
    i8("received", "words of 4 bytes", "Received."),
)

ARBITER = Rows(
    "VL arbitration of a port (IBA 7.6.9).",
    i8("high_sent", "bytes", "Sent by the high-priority table since the last low-priority packet."),
    i8("chosen", "flag", "The high-priority table chose the VL that sends."),
    i8("drained", "ps", "End of the time in which a slow port drains its buffer."),
)

ARBITRATION = Rows(
    "An arbitration table of a port: rows 2 * port (low priority) and 2 * port + 1 (high).",
    i8("entry", "entry", "Entry whose turn it is."),
    i8("left", "bytes", "Remaining weight of the entry."),
)

VL = Rows(
    "Port VLs, a cache line each. The first two credits in transit are here, later ones in a list.",
    i4(
        "ring",
        "queue or stream, + 1",
        "Last queue or stream of the ring in which they take turns; 0: the ring is empty.",
    ),
    i4("fctbs", "credits mod 4096", "Total blocks sent (FCTBS)."),
    i4("fccl", "credits mod 4096", "Credit limit (FCCL)."),
    i4("waits", "bits", "STARVED, IS_STALLED, HOQ_DISCARDED."),
    i4("queued", "credits of 64 bytes", "Blocks queued for this output VL."),
    i4("credits", "row", "First credit of the list in State.credit; 0: none."),
    i4("last_credit", "row", "Last credit of that list."),
    i4("first_blocks", "credits of 64 bytes", "First credit in transit; 0: none."),
    i4("second_blocks", "credits of 64 bytes", "Second credit in transit; 0: none."),
    i8("head_since", "ps", "Arrival of the packet at the head."),
    i8("first_at", "ps", "Arrival of the first credit."),
    i8("second_at", "ps", "Arrival of the second credit."),
    size=64,
)

VL_MORE = Rows(
    "Port VLs: rarely used columns.",
    i8("stalls", "packets", "Consecutive HOQLife discards."),
    i8("stalled", "ps", "Time at which the stall of the VL ends."),
    i8(
        "control",
        "packet",
        "First of the packets that go ahead of the port's streams, for example acknowledgements; 0: none.",
    ),
    i8("last_control", "packet", "Last of them."),
    i8("first", "packet", "FIFO mode: first packet of the input; 0: none."),
    i8("last_in", "packet", "FIFO mode: last packet of the input."),
    i8("mark", "packets", "Packets since a mark (congestion control)."),
    i8("leaving", "flag", "FIFO mode: a packet is leaving the input."),
)

VL_WAIT = Rows(
    "Waiting of port VLs (PortVLXmitWait).",
    i8("ticks", "ticks", "PortVLXmitWait."),
    i8("since", "ps + 1", "Time since which the VL has had data without sending; 0: it does not wait."),
    i8("busy", "ps", "Time at which its last packet has left."),
)

VOQ = Rows(
    "Virtual output queues: packets from one input port for one output port and VL.",
    i4("head", "packet", "First packet; 0: the queue is empty."),
    i4("tail", "packet", "Last packet."),
    i4("next", "queue + 1", "Next queue of the ring of its port VL."),
)

PACKET = Rows(
    "Packets, a cache line each. Row 0 is no packet.",
    i4(
        "next",
        "packet",
        "Next packet of its queue or of the free list; a packet that is copied: the next port number to check.",
    ),
    i4("stream", "stream", "2 * queue pair, + 1 for packets that its destination sends."),
    i4("psn", "packets", "Sequence number, not wrapped; for a MAD, its row of State.mad."),
    i4("octets", "bytes", "Size on the wire."),
    i4("dlid", "LID", "Destination."),
    i4("sl", "SL", "Service level."),
    i4("vl", "VL", "Virtual lane of the link on which it arrived."),
    i4("came_in", "port", "Port through which it entered."),
    i4("kind", "packet kind", "DATA, ACK and the others."),
    i4("marks", "bits", "LAST_OF_MESSAGE, FECN, ASKS_ACK, OUT_OF_ORDER, BAD, COPY, CUT."),
    i4(
        "out",
        "output port << 4 | VL",
        "FIFO mode: output port and VL; a packet that is copied: copies that have not left; Ethernet: switches passed.",
    ),
    i4(
        "behind",
        "packet",
        "FIFO mode: next packet of its input; a copy: the packet that holds its place; an ACK of RoCE: ns of the host; "
        "of TCP: segments from its number to a block << 16 | those of the block.",
    ),
    i8("tail", "ps", "Arrival of its last byte."),
    i8("entered", "ps", "Time at which it entered the switch; for TCP, and RoCE that measures delays, its timestamp."),
    size=64,
)

THROTTLE = Rows(
    "Flows that congestion control slows: a stream, or all streams of one SL of a port.",
    i8("ccti", "CCTI", "Index of the congestion control table."),
    i8("delay", "packet times / 1000", "Pause after the end of a packet."),
    i8("timed", "flag", "The CCTI timer runs."),
)

BOUND_FLOW = Rows(
    "Flows that an adaptive switch keeps on a port (BOUNDED).",
    i8("flow", "(stream + 1) << 8 | port number", "The flow and its port; 0: unused."),
    i8("sent_at", "ps", "Time of its last packet."),
)

DELIVERY = Rows(
    "Deliveries of multicast messages, by message and member.",
    i8("arrived", "ps", "Time of arrival at the member; -1: it did not arrive."),
    i8("times", "count", "Number of arrivals."),
)
