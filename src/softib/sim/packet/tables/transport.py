"""Queue pairs and messages. Queue pairs of every service have a row in :data:`QP`; what RC alone
needs is in :data:`RC`, what UC and UD need in :data:`UNRELIABLE`."""

from __future__ import annotations

from softib.jit.rows import Rows, i4, i8

__all__ = ["MESSAGE", "QP", "RC", "ROUND_TRIP", "UNRELIABLE"]

QP = Rows(
    "Queue pairs of all services; computations have one a processor. Cache lines: sender, sender seldom, receiver.",
    i8("src", "port", "Source."),
    i8("out_vl", "VL", "VL on which the source sends."),
    i8("sl", "SL", "Service level."),
    i8("payload", "bytes", "Payload of a packet: the path MTU."),
    i8("service", "Transport", "RC, UC or UD; of TCP 0."),
    i8("current_message", "place in State.order", "Message that is sent next."),
    i8("next_psn", "packets", "PSN that is sent next."),
    i8("ring_next", "stream + 1", "Next stream of the ring of its port VL."),
    i8("end_message", "place in State.order", "Behind the last message; smaller after an error."),
    i8("done_message", "place in State.order", "First message that is not completed."),
    i8("in_ring", "flag", "Its requests take turns."),
    i8("not_before", "ps", "When its next request may be sent; of a processor when it is free."),
    i8("ps_packet", "packet times / 1000", "Static rate: time from a packet's begin to the next; 0: no limit."),
    i8("first_message", "place in State.order", "First message."),
    i8("wake", "ps", "When the event comes that lets it send again; -1: none."),
    i8("fetched", "ps", "When the payload of its current message is fetched so far."),
    i8("dst", "port", "Destination."),
    i8("back_lid", "LID", "Destination of answers."),
    i8("back_vl", "VL", "VL on which the destination answers."),
    i8("rx_message", "place in State.order", "Message that the receiver is at."),
    i8("last_message", "place in State.order", "Behind the last message, also after an error."),
    i8("repost", "ps", "How long after a message arrived its receive is posted again."),
    i8("back_ps_packet", "packet times / 1000", "Static rate of responses; 0: no limit."),
    size=192,
)

RC = Rows(
    "Reliable connections. Two cache lines: acknowledgements, responses. TCP uses expected, acked and timed.",
    i8("expected", "packets", "PSN that the receiver expects."),
    i4("naked", "state", "0: no NAK; 1: a NAK is to be sent; 2: one was sent; 3: an RNR NAK is to be sent."),
    i4("unacked", "flag", "An acknowledgement is to be sent."),
    i4("response_ring", "state", "0: no responses to send; 1: they take turns; 2: they are slowed."),
    i4("tries", "count", "ACK timeouts in a row."),
    i4("rnr_tries", "count", "RNR NAKs in a row."),
    i4("reads_out", "count", "READs and atomics in flight."),
    i8("acked", "packets", "First PSN that is not acknowledged."),
    i8("progress", "ps", "When something was last acknowledged or sent again."),
    i8("timed", "flag", "The ACK timer runs; of TCP the time of its event, + 1."),
    i8("response_next", "stream + 1", "Next stream of the ring of its port VL, for its responses."),
    i8("response", "place in State.order", "READ or atomic that is answered next."),
    i8("response_end", "place in State.order", "Behind the last one that was asked for."),
    i8("response_psn", "packets", "PSN of the next response."),
    i8("recovers", "packets + 1", "Missing response that was asked for again; 0: none."),
    i8("back_fetched", "ps", "When the payload of the current response is fetched so far."),
    i8("back_not_before", "ps", "When the next response may be sent."),
    size=128,
)

ROUND_TRIP = Rows(
    "Queue pairs whose acknowledgements measure round trips, for congestion controls over RoCE.",
    i8("sent", "ps", "Sender: when its last packet began to leave."),
    i8("left", "ps", "Sender: when that packet had left."),
    i8("resume", "packets", "Sender: PSN to go on with after a missing packet was sent again; 0: none."),
    i8("recover", "packets", "Sender: PSN that ends the recovery of missing packets."),
    i8("stamp", "ps + 1", "Receiver: time that the next acknowledgement echoes; 0: none."),
    i8("came", "ps", "Receiver: arrival of the packet whose time is in `stamp`."),
    i8("written", "ps", "Receiver: when it was in memory."),
    i8("marked", "flag", "Receiver: a packet since the last acknowledgement was marked."),
    i8("hole", "packets + 1", "Receiver: PSN that was missing when a packet last came ahead."),
    i8("hole_since", "ps", "Receiver: since when it is missing."),
)

UNRELIABLE = Rows(
    "Unreliable connections (UC) and datagrams (UD).",
    i8("expected", "packets", "UC: PSN that continues the current message; -1: the message is dropped."),
    i8("receives_free", "count", "UC, UD: receives that are posted."),
    i8("receives_at", "message + 1", "UC, UD: oldest message whose receive was not posted again; 0: none."),
    i8("receives_last", "message", "UC, UD: message that took a receive last."),
    i8("out_of_buffer", "messages", "UC, UD: messages that found no receive (out_of_buffer of mlx5)."),
)

MESSAGE = Rows(
    "Messages, and computations.",
    i8("qp", "queue pair", "Its queue pair; of a computation its processor."),
    i8("length", "bytes", "Payload; of a computation its time in ps."),
    i8("psn", "packets", "PSN of its first packet."),
    i8("packets", "packets", "Its packets, or those of the response."),
    i8("opcode", "Opcode", "What it asks for; a WRITE with immediate is a WRITE."),
    i8("posted", "ps + 1", "When the adapter may begin; 0: it is not posted yet."),
    i8("needs", "messages", "Messages that it still waits for."),
    i8("after", "ps", "When the last of them was there."),
    i8("start", "ps", "When it begins at the earliest."),
    i8("delay", "ps", "Time from the last thing that it waits for to its begin."),
    i8("began", "ps", "When its program posted it; -1: never."),
    i8("arrived", "ps", "When its last byte was in the destination's memory; -1: never."),
    i8("completed", "ps", "When its sender had the completion; -1: never."),
    i8("lid", "LID", "Destination."),
    i8(
        "receive",
        "message + 1",
        "RC: message whose receive it takes, 0: one is there. UC, UD: NEEDS_RECEIVE or HAS_RECEIVE - (next + 1).",
    ),
    i8("group", "group + 1", "Multicast group; 0: none."),
    i8("delivery", "row", "First row of State.delivery."),
    i8("value", "sum", "What it carries where switches reduce."),
    i8("immediate", "flag", "It is a WRITE with immediate data."),
)
