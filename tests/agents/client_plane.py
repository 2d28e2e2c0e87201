"""The agents with a client (a subnet manager, an application) on every port: what it must handle is kept for the test."""

from __future__ import annotations

import numpy as np

from softib.agents.kernels.link_events import raise_trap
from softib.agents.plane import AgentPlane, Delivery
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba import notice as wire
from softib.iba.smp import PortInfo
from softib.mad.batch import MadBatch

THRESHOLD_TRAPS = {"local_link_integrity_errors": 129, "excessive_buffer_overrun_errors": 130}


class ClientPlane(AgentPlane):
    """As :class:`AgentPlane`; what :meth:`send` finds for clients collects until :meth:`take_deliveries`."""

    def __init__(self, fabric: Fabric, **options: bool | None):
        super().__init__(fabric, **options)
        self._deliveries: list[Delivery] = []

    def send(self, batch: MadBatch, port: int, now_ps: int = 0) -> MadBatch:
        answers, delivery = self.exchange(batch, port, now_ps)
        if delivery is not None:
            self._deliveries.append(delivery)
        return answers

    def take_deliveries(self) -> list[Delivery]:
        """What :meth:`send` found for clients since the last call, oldest first."""
        taken, self._deliveries = self._deliveries, []
        return taken

    def count(self, port: int, counter: str, n: int = 1, now_ps: int = 0) -> None:
        """The hardware's doing: ``counter`` of ``port`` grows by ``n``. LocalLinkIntegrityErrors and ExcessiveBufferOverrunErrors count
        crossings of the thresholds in PortInfo; each raises trap 129 or 130 (IBA 14.2.5.1, 7.12)."""
        self.fabric.counters[counter][port] += n
        if counter in THRESHOLD_TRAPS:
            self._threshold(port, THRESHOLD_TRAPS[counter], now_ps)

    def watchdog(self, port: int, now_ps: int = 0) -> None:
        """The hardware's doing: the flow-control watchdog of ``port`` expired (trap 131; IBA 7.9.3)."""
        self._threshold(port, 131, now_ps)

    def _threshold(self, port: int, trap: int, now_ps: int) -> None:
        number = int(self.fabric.port_num[port])
        data = np.ascontiguousarray(wire.TrapPortThreshold.pack(portnum=number))
        raise_trap(self.tables, self._end_port(port), trap, number, data, int(now_ps))

    def _end_port(self, port: int) -> int:
        node = int(self.fabric.port_node[port])
        return int(self.fabric.node_base[node]) if self.fabric.switch_of_node[node] >= 0 else int(port)

    def security(self, port: int, trap: int, now_ps: int = 0, **details: int) -> None:
        """The hardware's doing: ``port`` refused a packet: 257 P_Key, 258 Q_Key, 259 P_Key at a switch port.

        ``details`` are fields of :class:`~softib.iba.notice.TrapBadKey` or ``TrapBadSwitchPKey``. Counts in PortInfo
        (257, 258: violations of the end port) and raises the trap. Raises :class:`InputError` for another trap.
        """
        if trap not in (257, 258, 259):
            raise InputError(f"no security trap {trap}; 257 P_Key, 258 Q_Key, 259 P_Key at a switch")
        end = self._end_port(port)
        if trap != 259:
            field = PortInfo.pkey_violations if trap == 257 else PortInfo.qkey_violations
            info = self.fabric.port_info[end]
            field.set(info, min(int(field.get(info)) + 1, field.mask))
        data = wire.DETAILS_BY_TRAP[trap].pack(**details)
        raise_trap(self.tables, end, trap, int(self.fabric.port_num[port]), np.ascontiguousarray(data), int(now_ps))
