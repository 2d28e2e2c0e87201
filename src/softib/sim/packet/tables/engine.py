"""The event queue, the scalars of a run, its log, and the MADs in transit."""

from __future__ import annotations

from softib.jit.rows import Rows, i8
from softib.sim.packet.constants import EVENTS_A_BLOCK, LOG_MAD_VALUES

__all__ = ["CREDIT", "EVENT", "EVENT_BLOCK", "LOG", "MADS", "MAD_ROW", "REGISTERS", "SMI"]

REGISTERS = Rows(
    "Scalars of a run.",
    i8("now", "ps", "Time of the current event."),
    i8("width", "log2 ps", "Width of a bucket of the calendar, as a power of two."),
    i8("bucket", "bucket", "Number of the current bucket."),
    i8("heap_n", "events", "Events in State.heap."),
    i8("later_n", "events", "Events in State.later."),
    i8("timer_n", "events", "Events in State.timer."),
    i8("pending", "events", "Events in the buckets of the calendar."),
    i8("free_event", "row", "First block of the free list of State.event."),
    i8("free_packet", "row", "First packet of the free list of State.packet."),
    i8("free_credit", "row", "First credit of the free list of State.credit."),
    i8("spare_events", "rows", "Blocks on the free list."),
    i8("spare_packets", "rows", "Packets on the free list."),
    i8("spare_credits", "rows", "Credits on the free list."),
    i8("events", "count", "Events handled."),
    i8("hops", "count", "Data packets times links."),
    i8("sent", "packets", "Number of packets of messages that adapters have sent."),
    i8("left", "messages", "Messages that are not done."),
    i8("in_network", "packets", "Packets in the network."),
    i8("last", "ps", "Time of the last event."),
    i8("first_scout", "4 * block + place", "Event of the next bucket for which memory is prefetched; 0: none."),
    i8("second_scout", "4 * block + place", "Event of the bucket after that for which memory is prefetched; 0: none."),
    i8("due_at", "row", "Next row of State.due."),
    i8("due_n", "rows", "Rows of State.due."),
    i8("next_block", "row", "Block of the next bucket for which memory is prefetched; 0: none."),
    i8("log_rows", "rows", "Rows written in State.log."),
)

EVENT = Rows(
    "Events: time and kind.",
    i8("time", "ps", "Time of the event."),
    i8("what", "entity << 32 | kind << 28 | payload", "The event; the order of events with equal times."),
)

EVENT_BLOCK = Rows(
    "Blocks of a bucket's list of events, a cache line each. Row 0 is full and belongs to no bucket.",
    i8("next", "row", "Next block of the bucket, or of the free list; 0: none."),
    i8("count", "events", "Events in the block."),
    i8("time", "ps", "Time of each event.", many=EVENTS_A_BLOCK),
    i8("what", "entity << 32 | kind << 28 | payload", "Each event.", many=EVENTS_A_BLOCK),
)

CREDIT = Rows(
    "Credits in transit to a port VL after its first two.",
    i8("time", "ps", "Arrival of the flow-control packet."),
    i8("blocks", "credits of 64 bytes", "Credits in it."),
    i8("next", "row", "Next credit of the port VL, or of the free list; 0: none."),
)

LOG = Rows(
    "Events of watched packets, from row 1 on.",
    i8("place", "port << 4 | kind", "Port, and the event there: LOG_SENT or another."),
    i8("now", "ps", "Time of the decision."),
    i8(
        "start", "ps", "Sent: the first byte's time; received: out of the receive buffer; lost: not a time, the reason."
    ),
    i8("end", "ps", "Sent: the last byte's time; received: in memory."),
    i8("flow", "stream << 32 | PSN", "Stream of the packet; -1 for a MAD."),
    i8("fields", "bits", "Size, DLID << 16, SL << 32, VL << 36, kind << 40, marks << 48."),
    i8("came_in", "port", "Port through which it entered."),
    i8("entered", "ps", "Time at which it entered the switch; for a MAD, its source LID."),
    i8(
        "mad",
        "8 bytes",
        "LOG_MAD: bytes of the MAD of the row before, as it travelled.",
        many=LOG_MAD_VALUES,
        over="now",
    ),
)

MADS = Rows(
    "Scalars of the management plane.",
    i8("free", "row", "First row of the free list of State.mad."),
    i8("spare", "rows", "Rows on the free list."),
    i8("inbox", "packets", "Packets in State.inbox."),
    i8("lost", "MADs", "MADs that were lost."),
    i8("sent", "MADs", "MADs that were sent."),
)

SMI = Rows(
    "Subnet management interface of a port (IBA 14.2.1).",
    i8("head", "packet", "First packet that waits for VL15; 0: none."),
    i8("last", "packet", "Last of them."),
    i8("held", "packets", "Packets in the VL15 receive buffer."),
    i8("dropped", "packets", "VL15Dropped."),
    i8("busy", "ps", "Time at which the management processor of this end port becomes free."),
    i8("cut", "packets", "Packets lost on the cable to the port."),
)

MAD_ROW = Rows(
    "MADs in transit: data about each in addition to its bytes.",
    i8("next", "row", "Next row of the free list."),
    i8("source", "port", "End port that sent it."),
    i8("slid", "LID", "Source LID; of a directed SMP the permissive LID."),
)
