"""Queue pairs and messages. Queue pairs of every service have a row in :data:`QP`; columns for RC only are in
:data:`RC`, those for UC and UD in :data:`UNRELIABLE`."""

from __future__ import annotations

from softib.jit.rows import Rows, i4, i8

__all__ = ["MESSAGE", "QP", "RC", "ROUND_TRIP", "UNRELIABLE"]

QP = Rows(
    "Queue pairs of all services; computations have one per processor. Cache lines: sender, sender (rare), receiver.",
    i8("src", "port", "Source."),
    i8("out_vl", "VL", "VL on which the source sends."),
    i8("sl", "SL", "Service level."),
    i8("payload", "bytes", "Payload of a packet: the path MTU."),
    i8("service", "Transport", "RC, UC or UD; 0 for TCP."),
    i8("current_message", "place in State.order", "Message that is sent next."),
    i8("next_psn", "packets", "PSN that is sent next."),
    i8("ring_next", "stream + 1", "Next stream of the ring of its port VL."),
    i8("end_message", "place in State.order", "Position after the last message; smaller after an error."),
    i8("done_message", "place in State.order", "First message that is not completed."),
    i8("in_ring", "flag", "Its requests are in the ring."),
    i8("not_before", "ps", "Earliest time of its next request; for a processor, time at which it becomes free."),
    i8("ps_packet", "packet times / 1000", "Static rate: time from the start of a packet to the next; 0: no limit."),
    i8("first_message", "place in State.order", "First message."),
    i8("wake", "ps", "Time of the event after which it can send again; -1: none."),
    i8("fetched", "ps", "Time at which the requested payload of its current message has been fetched."),
    i8("dst", "port", "Destination."),
    i8("back_lid", "LID", "Destination of answers."),
    i8("back_vl", "VL", "VL on which the destination answers."),
    i8("rx_message", "place in State.order", "Current message of the receiver."),
    i8("last_message", "place in State.order", "Position after the last message, also after an error."),
    i8("repost", "ps", "Time from the arrival of a message until its receive is posted again."),
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
    i8("progress", "ps", "Time of the last acknowledgement or retransmission."),
    i8("timed", "flag", "The ACK timer runs; for TCP, the time of its event + 1."),
    i8("response_next", "stream + 1", "Next stream of the ring of its port VL, for its responses."),
    i8("response", "place in State.order", "READ or atomic that is answered next."),
    i8("response_end", "place in State.order", "Position after the last requested one."),
    i8("response_psn", "packets", "PSN of the next response."),
    i8("recovers", "packets + 1", "PSN of the missing response that was requested again; 0: none."),
    i8("back_fetched", "ps", "Time at which the requested payload of the current response has been fetched."),
    i8("back_not_before", "ps", "Earliest time of the next response."),
    size=128,
)

ROUND_TRIP = Rows(
    "Queue pairs whose acknowledgements measure round trips, for congestion controls over RoCE.",
    i8("sent", "ps", "Sender: time at which its last packet began to leave."),
    i8("left", "ps", "Sender: time at which that packet had left."),
    i8("resume", "packets", "Sender: PSN with which it continues after a missing packet was sent again; 0: none."),
    i8("recover", "packets", "Sender: PSN that ends the recovery of missing packets."),
    i8("stamp", "ps + 1", "Receiver: time that the next acknowledgement echoes; 0: none."),
    i8("came", "ps", "Receiver: arrival of the packet whose time is in `stamp`."),
    i8("written", "ps", "Receiver: time at which that packet was in memory."),
    i8("marked", "flag", "Receiver: a packet since the last acknowledgement was marked."),
    i8("hole", "packets + 1", "Receiver: PSN that was missing when a packet last arrived early."),
    i8("hole_since", "ps", "Receiver: time since which it has been missing."),
)

UNRELIABLE = Rows(
    "Unreliable connections (UC) and datagrams (UD).",
    i8("expected", "packets", "UC: PSN that continues the current message; -1: the message is dropped."),
    i8("receives_free", "count", "UC, UD: receives that are posted."),
    i8("receives_at", "message + 1", "UC, UD: oldest message whose receive was not posted again; 0: none."),
    i8("receives_last", "message", "UC, UD: last message that used a receive."),
    i8("out_of_buffer", "messages", "UC, UD: messages that found no receive (out_of_buffer of mlx5)."),
)

MESSAGE = Rows(
    "Messages, and computations.",
    i8("qp", "queue pair", "Its queue pair; for a computation, its processor."),
    i8("length", "bytes", "Payload; for a computation, its time in ps."),
    i8("psn", "packets", "PSN of its first packet."),
    i8("packets", "packets", "Its packets, or those of the response."),
    i8("opcode", "Opcode", "Requested operation; a WRITE with immediate is a WRITE."),
    i8("posted", "ps + 1", "Earliest time at which the adapter may begin; 0: it is not posted yet."),
    i8("needs", "messages", "Messages that it still waits for."),
    i8("after", "ps", "Arrival of the last of them."),
    i8("start", "ps", "Earliest time of its start."),
    i8("delay", "ps", "Time from the arrival of the last message that it waits for until its start."),
    i8("began", "ps", "Time at which its program posted it; -1: it did not."),
    i8("arrived", "ps", "Time at which its last byte was in the destination's memory; -1: it did not arrive."),
    i8("completed", "ps", "Time at which its sender had the completion; -1: it did not complete."),
    i8("lid", "LID", "Destination."),
    i8(
        "receive",
        "message + 1",
        "RC: message whose receive it reuses; 0: one is posted. UC, UD: NEEDS_RECEIVE or HAS_RECEIVE - (next + 1).",
    ),
    i8("group", "group + 1", "Multicast group; 0: none."),
    i8("delivery", "row", "First row of State.delivery."),
    i8("value", "sum", "If switches reduce: the value that the message carries."),
    i8("immediate", "flag", "It is a WRITE with immediate data."),
)
