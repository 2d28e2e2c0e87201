"""The management plane: subnet management interfaces of ports, and MADs under way."""

from __future__ import annotations

from softib.jit.rows import Rows, i8

__all__ = ["MADS", "MAD_ROW", "SMI"]

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
    i8("busy", "ps", "Until when the management processor behind this end port is busy."),
    i8("cut", "packets", "Packets that were lost on the cable into the port."),
)

MAD_ROW = Rows(
    "MADs under way: what is known of each beside its bytes.",
    i8("next", "row", "Next row of the free list."),
    i8("source", "port", "End port that sent it."),
    i8("slid", "LID", "Source LID; of a directed SMP the permissive LID."),
)
