"""The tables of the packet layer. Kernels take two: :data:`Net`, which does not change during a run,
and :data:`State`.

Times are int64 picoseconds. A *port* is a row of the fabric's port arrays; a *port VL* is row
``port * vls + vl`` of the data VLs in use; a *virtual output queue* holds packets from one input
port for one output port and VL; a *stream* is ``2 * queue pair``, + 1 for packets from its destination.
Rows of packets, credits and events come from free lists. Row 0 of each is unused, so that zeroed memory is empty and
untouched pages stay untouched.
"""

from __future__ import annotations

from typing import Any

from softib.jit import table
from softib.jit.rows import Array
from softib.sim.packet.kernels.congestion import built_in
from softib.sim.packet.tables import engine, ethernet, links, network, transport

__all__ = ["Net", "State"]

Net: Any = table(
    "Net",
    {
        "port": Array("ports", network.PORT),
        "rare": Array("ports", network.PORT_RARE),
        "opt": Array("", network.OPTIONS),
        "lft": Array("switches, LIDs", "uint8", "port number", "Linear forwarding tables."),
        "sl2vl_base": Array("ports", "int32", "row of sl2vl", "First row of a switch port's SL2VL tables."),
        "sl2vl": Array("rows, 8", "uint8", "pairs of VLs", "SLtoVLMappingTable by output and input port."),
        "uniform": Array(
            "16", "int64", "VL", "VL by SL, used if all switch ports have the same mapping (opt.uniform_sl2vl)."
        ),
        "vl_arb": Array("ports, 4, 64", "uint8", "VL, weight", "Blocks of VLArbitrationTable."),
        "loss": Array("ports", network.LOSS),
        "marking": Array("ports", network.MARKING),
        "throttling": Array("ports, SLs", network.THROTTLING),
        "cct": Array("ports, CCTIs", "int64", "packet times / 1000", "Congestion control table: delay after a packet."),
        "ar_lft": Array(
            "switches, LIDs", "uint16", "state << 14 | group", "Adaptive routing: state and group of a LID."
        ),
        "ar_group": Array("switches, groups, 4", "uint64", "bits of ports", "Adaptive routing: ports of a group."),
        "ar_on": Array(
            "switches",
            "int64",
            "bits",
            "SLs that may be routed adaptively, transports that may not, and whether local repair is on.",
        ),
        "ageing": Array("switches", "int64", "ps", "Pause after which a BOUNDED flow may change its port."),
        "mft": Array("switches, MLIDs, 16", "uint16", "bits of ports", "Multicast forwarding tables."),
        "switch_info": Array("switches, 64", "uint8", "bytes", "SwitchInfo, for MulticastFDBTop."),
        "group_first": Array("groups + 1", "int64", "row of group_port", "First member of each multicast group."),
        "group_port": Array("members", "int64", "port", "Members of multicast groups, ascending."),
        "management": Array("", network.MANAGEMENT),
        "wire": Array(
            "ports", "int32", "port", "Port at the other end of a link that is physically up, which is enough for VL15."
        ),
        "drain": Array("ports", "int64", "fs/byte", "Time a slow port takes for a byte; 0: as fast as the link."),
        "ethernet": Array("", ethernet.SETTINGS),
        "cc": Array("", built_in.SETTINGS),
        "buffer": Array("ports", ethernet.BUFFER),
        "ecmp": Array("switches, switches", "int32", "row of next_hop", "Equal-cost paths from one switch to another."),
        "next_hops": Array("rows", "uint8", "count", "Ports of a row of next_hop."),
        "next_hop": Array("rows, ports", "uint8", "port number", "Ports on shortest paths."),
        "leaf": Array("LIDs", "int32", "switch", "Switch of a LID; -1: none."),
        "watch_port": Array("ports", "uint8", "flag", "Log the packets of this port; empty: log nothing."),
        "watch_qp": Array("queue pairs", "uint8", "flag", "Log the packets of this queue pair."),
    },
)
"""Values from a fabric, its managers and the options of a run. Arrays of features that a run does not use have one
row."""

State: Any = table(
    "State",
    {
        "reg": Array("", engine.REGISTERS),
        "port": Array("ports", links.PORT_STATE),
        "rare_count": Array("ports", links.RARE_COUNT),
        "by_sl": Array("ports, SLs", links.BY_SL),
        "arbiter": Array("ports", links.ARBITER),
        "arbitration": Array("2 * ports", links.ARBITRATION),
        "vl": Array("port VLs", links.VL),
        "vl_more": Array("port VLs", links.VL_MORE),
        "vl_wait": Array("port VLs", links.VL_WAIT),
        "voq": Array("queues", links.VOQ),
        "packet": Array("packets", links.PACKET),
        "credit": Array("credits", engine.CREDIT),
        "qp": Array("queue pairs", transport.QP),
        "rc": Array("queue pairs", transport.RC),
        "unreliable": Array("queue pairs", transport.UNRELIABLE),
        "place": Array(
            "streams, words",
            "uint64",
            "bits of PSNs",
            "Packets that arrived out of order, and which of them requested an ACK.",
        ),
        "message": Array("messages", transport.MESSAGE),
        "order": Array("messages", "int64", "message", "Messages by queue pair, in the order of sending."),
        "arrival": Array("messages + 1", "int64", "row of after_arrival", "First message that waits for an arrival."),
        "after_arrival": Array("waiting", "int64", "message", "Messages that wait for the arrival of others."),
        "completion": Array(
            "messages + 1", "int64", "row of after_completion", "First message that waits for a completion."
        ),
        "after_completion": Array("waiting", "int64", "message", "Messages that wait for the completion of others."),
        "resent": Array("messages", "int64", "packets", "Number of packets of a message that were sent again."),
        "delivery": Array("deliveries", links.DELIVERY),
        "event": Array("blocks", engine.EVENT_BLOCK),
        "bucket": Array("buckets", "int64", "row of event", "First block of a bucket of the calendar; 0: empty."),
        "used": Array("buckets / 64", "uint64", "bits of buckets", "Buckets with events."),
        "heap": Array("events", engine.EVENT, text="Binary heap: events that were added to the current bucket."),
        "due": Array("events", engine.EVENT, text="Events of the current bucket, in their order."),
        "sorting": Array("events", engine.EVENT, text="Room to sort State.due."),
        "digits": Array("256", "int64", "events", "Events by digit, to sort State.due."),
        "later": Array("events", engine.EVENT, text="Binary heap: events beyond the calendar."),
        "timer": Array("events", engine.EVENT, text="Binary heap: timeouts and events of the management plane."),
        "flow": Array("streams", "int64", "row of throttle", "Throttling of a stream."),
        "throttle": Array("flows", links.THROTTLE),
        "bound": Array("switches, slots", links.BOUND_FLOW),
        "rng": Array("1", "uint64", "number", "Seed of what is drawn."),
        "mads": Array("", engine.MADS),
        "smi": Array("ports", engine.SMI),
        "mad": Array("MADs, 256", "uint8", "bytes", "MADs in transit; row 0 is unused."),
        "mad_row": Array("MADs", engine.MAD_ROW),
        "inbox": Array("MADs", "int64", "packet", "Packets that wait for an agent or a client."),
        "queue": Array("port VLs", ethernet.QUEUE),
        "round_trip": Array("queue pairs", transport.ROUND_TRIP),
        "cc": Array("streams", built_in.FLOW),
        "tcp": Array("queue pairs", ethernet.TCP),
        "segment": Array(
            "segments", "int64", "ps + 1", "TCP: last sending time of a segment; 0: it is lost; -1: it has arrived."
        ),
        "processor": Array("ports", ethernet.PROCESSOR),
        "log": Array("rows", engine.LOG),
    },
)
"""State that changes during a run. Arrays of features that a run does not use have one row."""
