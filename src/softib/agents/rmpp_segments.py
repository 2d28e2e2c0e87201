"""Count the packets after the first of an RMPP message, at every port of their path (IBA 13.6,
16.1.3.5).

Between softib's programs, a message is transferred in one piece. The agents route and count only
its first packet. Its other segments take the same path; the acknowledgements of the receiver's
driver take the path to the sender's LID in the forwarding tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.agents.kernels.mad_traffic import MAD_DWORDS
from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.iba.constants import MAD_SIZE, RESPONSE_BIT, VENDOR2_CLASSES, MgmtClass
from softib.iba.sa import RMPP_HEADER, RmppHeader, RmppType
from softib.iba.smp import CLASS_AT, METHOD_AT, PortInfo
from softib.mad.rmpp import RMPP_END, WINDOW, class_header_of, is_whole

__all__ = ["RmppSegments", "egress_ports", "segments_of"]

MOST = 2**64 - 1
RMPP_CLASSES = {MgmtClass.SUBN_ADM, MgmtClass.DEV_ADM, MgmtClass.BIS, *VENDOR2_CLASSES}
TYPE_AT = RMPP_HEADER + RmppHeader.type.byte


def segments_of(octets: int, mgmt_class: int) -> tuple[int, int]:
    """Return (segments, acknowledgements) of a message of ``octets`` bytes, including the head. The
    first segment is acknowledged, the last of each window, and the last of the message."""
    head = RMPP_END + class_header_of(mgmt_class)
    n = max(1, -(-(octets - head) // (MAD_SIZE - head)))
    return n, -(-n // WINDOW) + ((n - 1) % WINDOW != 0)


def egress_ports(f: Fabric, port: int, lid: int) -> list[int]:
    """Return the rows of the egress ports that a packet to ``lid`` passes with the current
    forwarding tables, starting at end port ``port``."""
    rows: list[int] = []
    at = port
    for _ in range(f.sizes.switches + 1):
        node = int(f.port_node[at])
        if f.is_switch[node]:
            out = int(f.lft[f.switch_of_node[node], lid])
            if out == 0 or out > f.node_nports[node]:
                break
            at = int(f.node_base[node]) + out
        elif rows:
            break
        rows.append(at)
        at = int(f.port_peer[at])
        if at < 0:
            break
    return rows


class RmppSegments:
    """Counts messages between programs and managers of ``plane``. ``whole`` is a function that
    returns whether the receiver of a response (uint8[256]) accepts complete RMPP messages.
    ``octets`` is a function that returns the length in bytes of the message that a program is now
    sending (0: it fits into one MAD)."""

    def __init__(self, plane: AgentPlane):
        self.fabric, self.tables = plane.fabric, plane.tables
        self.whole: Callable[[np.ndarray], bool] = lambda mad: False
        self.octets: Callable[[], int] = lambda: 0

    def count(self, mad: np.ndarray, octets: int, dlid: int, sl: int, port: int, to: int) -> None:
        """Count the segments of a message that was sent from end port ``port`` to end port ``to``
        on ``sl``. ``mad`` is its first packet, and ``octets`` its length in bytes (0: the packet is
        the whole message)."""
        if int(mad[CLASS_AT]) not in RMPP_CLASSES or port == to or not self.tables.options[0]:
            return
        response = bool(mad[METHOD_AT] & RESPONSE_BIT)
        if not octets and not (response and mad[TYPE_AT] == RmppType.DATA and is_whole(mad[None])[0]):
            return
        if response and not self.whole(mad):
            return  # a program without RMPP gets only the first segment
        segments, acks = segments_of(octets or RMPP_END, int(mad[CLASS_AT]))
        self._pass(port, dlid, sl, segments - 1)
        self._pass(to, int(PortInfo.lid.get(self.fabric.port_info[port])), sl, acks)

    def _pass(self, port: int, lid: int, sl: int, packets: int) -> None:
        if not packets:
            return
        counters, by_level = self.fabric.counters, self.fabric.sl_counters
        for egress in egress_ports(self.fabric, port, lid):
            ends = ((egress, "xmit"), (int(self.fabric.port_peer[egress]), "rcv"))
            for row, direction in ends:
                for name, n in (
                    (f"port_{direction}_data", packets * int(MAD_DWORDS)),
                    (f"port_{direction}_pkts", packets),
                    (f"port_unicast_{direction}_pkts", packets),
                ):
                    counters[name][row] = min(int(counters[name][row]) + n, MOST)
                levels = by_level[f"{direction}_data_sl"]
                levels[row, sl & 15] = min(int(levels[row, sl & 15]) + packets * int(MAD_DWORDS), MOST)
