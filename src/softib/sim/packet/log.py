"""The log of watched packets (``State.log``), as columns in time order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.iba.constants import MAD_SIZE
from softib.sim.messages import Messages
from softib.sim.packet import constants
from softib.sim.packet.options import PacketOptions

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["PacketLog", "watch_tables"]


@dataclass(frozen=True)
class PacketLog:
    """One row for each event of a watched packet, ascending by time and port; all columns are int64
    of the same length.

    * ``kind`` is :data:`~softib.sim.packet.tables.LOG_SENT` or another of the kinds of rows.
    * ``now``, ``start`` and ``end`` are in ps and have the meaning that :data:`~softib.sim.packet.tables.State` gives
      for each kind.
    * ``stream`` is 2 × queue pair, + 1 for packets from its destination (-1: a MAD).
    * ``psn`` does not wrap.
    * ``net_port``, ``qp``, ``order`` and ``message`` are tables of the engine. In runs in which links change, the
      ``peer`` in ``net_port`` is the port at the other end of the cable, whether the link is up or not.
    * ``mads`` uint8[…, 256]: the bytes of each MAD as it was sent at each hop; ``mad``: the row in ``mads`` (-1: not a
      MAD).
    """

    kind: np.ndarray
    port: np.ndarray
    now: np.ndarray
    start: np.ndarray
    end: np.ndarray
    stream: np.ndarray
    psn: np.ndarray
    octets: np.ndarray
    dlid: np.ndarray
    sl: np.ndarray
    vl: np.ndarray
    what: np.ndarray
    flags: np.ndarray
    came_in: np.ndarray
    entered: np.ndarray
    net_port: np.ndarray
    opt: Any
    qp: np.ndarray
    order: np.ndarray
    message: np.ndarray
    mad: np.ndarray
    mads: np.ndarray

    @classmethod
    def of(cls, net: Any, s: Any, net_port: np.ndarray | None = None) -> PacketLog:
        """Return the log of a run. Pass ``net_port`` if ``net.port`` changed during the run."""
        written = s.log[1 : 1 + int(s.reg.log_rows)]
        rows, mad, mads = _without_mads(written)
        fields, flow = rows["fields"], rows["flow"]
        order = np.lexsort((rows["start"], fields, flow, rows["place"], rows["now"]))
        rows, fields, flow = rows[order], fields[order], flow[order]
        return cls(
            kind=rows["place"] & 15,
            port=rows["place"] >> 4,
            now=rows["now"],
            start=rows["start"],
            end=rows["end"],
            stream=flow >> 32,
            psn=flow & 0xFFFFFFFF,
            octets=fields & 0xFFFF,
            dlid=fields >> 16 & 0xFFFF,
            sl=fields >> 32 & 15,
            vl=fields >> 36 & 15,
            what=fields >> 40 & 0xFF,
            flags=fields >> 48 & 0xFF,
            came_in=rows["came_in"],
            entered=rows["entered"],
            net_port=net.port if net_port is None else net_port,
            opt=net.opt,
            qp=s.qp,
            order=s.order,
            message=s.message,
            mad=mad[order],
            mads=mads,
        )

    def __len__(self) -> int:
        return len(self.kind)

    def message_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the message (row) of each packet; for an acknowledgement, the message of the packet that it
        acknowledges."""
        q, psn = self.stream[rows] >> 1, self.psn[rows]
        of_order = self.message[self.order]
        key = (of_order["qp"] << 32) + of_order["psn"]
        at = np.searchsorted(key, (q << 32) + np.maximum(psn, 0), side="right") - 1
        begin, end = self.qp["first_message"][q], _ends(self.qp, len(self.order))[q]
        return np.asarray(self.order[np.clip(at, begin, np.maximum(end - 1, begin))])


def _without_mads(written: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Separate the log's rows of packets from rows with bytes of MADs, each of which follows the row of its packet.
    Return (rows of packets, ``PacketLog.mad`` of each, ``PacketLog.mads``)."""
    octets = (written["place"] & 15) == constants.LOG_MAD
    values = constants.LOG_MAD_ROWS * constants.LOG_MAD_VALUES
    held = np.ascontiguousarray(written["mad"][octets], "<i8").reshape(-1, values)
    has_mad = ~octets & np.append(octets[1:], False)
    number = np.where(has_mad, np.cumsum(has_mad) - 1, -1)
    return written[~octets], number[~octets], held.view(np.uint8)[:, :MAD_SIZE]


def _ends(qp: np.ndarray, n: int) -> np.ndarray:
    """Return the position after the last message of each queue pair. After an error, the column ``end_message`` no
    longer has this value."""
    return np.append(qp["first_message"][1:], n)


def watch_tables(fabric: Fabric, m: Messages, options: PacketOptions) -> dict[str, np.ndarray]:
    """Return ``watch_port`` and ``watch_qp`` of
    :data:`~softib.sim.packet.tables.Net`.
    Raises :class:`InputError` for a port or message that does not exist.
    """
    ports, rows = np.array(options.watch_ports, np.int64), np.array(options.watch_messages, np.int64)
    if not len(ports) and not len(rows):
        return {"watch_port": np.zeros(0, np.uint8), "watch_qp": np.zeros(0, np.uint8)}
    for kind, numbers, n in (("port", ports, fabric.sizes.ports), ("message", rows, len(m))):
        wrong = (numbers < 0) | (numbers >= n)
        if wrong.any():
            raise InputError(
                f"{kind} {int(numbers[wrong][0])} does not exist, so it cannot be logged; there are {n:,}, numbered "
                f"from 0"
            )
    names, row_of = np.unique(m.qp, return_inverse=True)
    watch_port, watch_qp = np.zeros(fabric.sizes.ports, np.uint8), np.zeros(max(len(names), 1), np.uint8)
    watch_port[ports] = 1
    watch_qp[row_of[rows]] = 1
    return {"watch_port": watch_port, "watch_qp": watch_qp}
