"""Tables that only a manager or a fault changes while packets move: ports, options of the run,
managers' tables."""

from __future__ import annotations

from softib.jit.rows import Rows, f8, i4, i8

__all__ = ["LOSS", "MANAGEMENT", "MARKING", "OPTIONS", "PORT", "PORT_RARE", "THROTTLING"]


PORT = Rows(
    "Ports: columns that every packet reads.",
    i4("peer", "port", "Port at the other end of the link; -1: the link carries no data."),
    i4("kind", "port kind", "NOTHING, SWITCH_PORT or END_PORT. Port 0 of a switch is an end port behind the switch."),
    i4("switch", "switch", "Row of its switch; -1: a channel adapter."),
    i4("num", "port number", "Port number in its node."),
    i4("fs", "fs/byte", "Time of a byte on the link; 0: no link."),
    i4("delay_ps", "ps", "Propagation delay of the cable."),
    i4(
        "latency_ps",
        "ps",
        "Switch: time until a packet that entered here can leave; adapter: half of the latency of a pair.",
    ),
    i4("voq", "queue", "First of the virtual output queues for this output port."),
    i4("ports", "count", "Ports of its node, port 0 included."),
    i4("vls", "count", "Data VLs in use."),
    i4("mtu", "bytes", "Largest packet on the wire."),
    i4("port_0", "port", "Port 0 of its node."),
    i4("hoq", "code", "HOQLife: 4.096 us times 2^n; above 19 no limit."),
    i4("life", "code", "LifeTimeValue of its switch: 4.096 us times 2^n; above 19 no limit."),
    i4("next_kind", "port kind", "Kind of the peer, so that sending a packet does not read the peer's row."),
    i4("next_latency_ps", "ps", "Latency of the peer."),
    size=64,
)

PORT_RARE = Rows(
    "Ports: columns that few events read.",
    i8("blocks", "credits of 64 bytes", "Receive buffer of each data VL."),
    i8(
        "stall_count",
        "packets",
        "VLStallCount: consecutive HOQLife discards after which a VL stalls; 0: it never stalls.",
    ),
    i8(
        "high_limit",
        "bytes",
        "VLHighLimit: data of high priority that may be sent before low priority has its turn; -1: no limit.",
    ),
    i8("tick_ps", "ps", "Time of a tick of PortXmitWait."),
    i8("reduce_fs", "fs/byte", "Aggregation node: time to reduce a byte; 0: not an aggregation node."),
    i8("reduce_ps", "ps", "Aggregation node: time to reduce a packet, in addition to its bytes."),
    i8("low_cap", "entries", "Entries of the low-priority arbitration table; 0: not written."),
    i8("high_cap", "entries", "Entries of the high-priority arbitration table; 0: not written."),
)

OPTIONS = Rows(
    "Options of the run and figures of its adapters.",
    i8("vls", "count", "Data VLs of the run: port VL rows are port * vls + vl."),
    i8("fifo", "flag", "Each input has one FIFO per VL instead of virtual output queues."),
    i8("random", "flag", "An output selects the next input at random."),
    i8("uniform_sl2vl", "flag", "All switch ports map SLs to VLs in the same way, as in Net.uniform."),
    i8("ack_every", "packets", "Packets of a long message between two acknowledgements."),
    i8("fetch_ps", "ps", "Time until payload that is not inline begins to arrive from memory."),
    i8("inline", "bytes", "Largest payload that travels with the posted request."),
    i8("dma_fs", "fs/byte", "Time to fetch a byte from memory."),
    i8("rx_fs", "fs/byte", "Time to write a byte to memory."),
    i8("message_gap_ps", "ps", "Time between two requests of a port."),
    i8("ack_delay_ps", "ps", "Time until an acknowledgement leaves."),
    i8("cqe_ps", "ps", "Time until a program sees a completion."),
    i8("gap", "bytes", "Gap between two packets on the wire."),
    i8("timeout_ps", "ps", "ACK timeout."),
    i8("retries", "count", "Retries after ACK timeouts."),
    i8("reads", "count", "Largest number of READs and atomics in flight on a queue pair."),
    i8("fcp", "bytes", "Size of a flow-control packet."),
    i8("ar", "flag", "A switch routes adaptively."),
    i8("placement", "flag", "Receivers place packets that arrive out of order."),
    i8("cc", "flag", "A switch marks packets (congestion control)."),
    i8("ramp_fs", "fs/byte", "Time to fetch or write a byte at the start of a message."),
    i8("ramp", "bytes", "Bytes at the start of a message that take ramp_fs; 0: none."),
    i8("pio_fs", "fs/byte", "Time of an inline byte."),
    i8("smallest", "bytes", "Smallest packet."),
    i8("lossy", "flag", "A port damages packets."),
    i8("by_sl", "flag", "Count data by SL and waiting by VL."),
    i8("rnr", "flag", "Receives can be missing."),
    i8("rnr_ps", "ps", "RNR NAK timer."),
    i8("rnr_retries", "count", "RNR retry count; 7: no limit."),
    i8("multicast", "flag", "Messages go to multicast groups."),
    i8("aggregates", "flag", "Aggregation nodes reduce."),
)

LOSS = Rows(
    "Damage to packets that enter a port, with probability 1 - exp(-(packet + byte * length)): Fabric.port_loss.",
    f8("packet", "1", "Part of the exponent that does not depend on the packet's length."),
    f8("byte", "1/byte", "Part of the exponent that each byte adds."),
)

MARKING = Rows(
    "Congestion control of switch ports (IBA A10, SwitchPortCongestionSetting).",
    i8("threshold", "credits of 64 bytes", "Queue length of an output VL from which packets are marked; 0: never."),
    i8("packet_size", "bytes", "Smallest packet that is marked."),
    i8("rate", "packets", "Packets between two marks."),
    i8("victim", "flag", "Mark packets even if the port has no credits."),
)

THROTTLING = Rows(
    "Congestion control of adapter ports by SL (IBA A10, CACongestionSetting).",
    i8("timer_ps", "ps", "CCTI_Timer: time until the CCTI decreases by one; 0: it does not decrease."),
    i8("increase", "CCTI", "Increase of the CCTI by a BECN."),
    i8("limit", "CCTI", "Largest CCTI."),
    i8("least", "CCTI", "Smallest CCTI."),
)

MANAGEMENT = Rows(
    "Failures in time and the management plane.",
    i8("on", "flag", "Links change state and MADs are sent."),
    i8("slow", "flag", "A port drains slowly."),
    i8("buffers", "packets", "VL15 receive buffer of a port."),
    i8("agent_ps", "ps", "Time a management processor takes to answer a MAD."),
    i8("forward_ps", "ps", "Time a switch's management processor takes to forward a directed SMP."),
)
