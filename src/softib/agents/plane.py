"""The management plane of a fabric: every device's firmware behind one call.

A batch of MADs leaves a port, is routed as the hardware routes it, and comes back as a batch of answers::

    plane = AgentPlane(fabric)
    answers = plane.send(requests, port=sm_port, now_ps=0)

Only this writes the configuration of a running fabric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.agents.kernels import serve, set_link
from softib.agents.layout import tables_of
from softib.errors import InputError, SoftibBug
from softib.fabric.model import Fabric
from softib.iba import notice as wire
from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE, Method, MgmtClass, SmpAttr
from softib.iba.smp import MadHeader, PortInfo
from softib.mad.batch import MadBatch

__all__ = ["AgentPlane", "Delivery", "Notice"]


TRAP_TYPE = {128: 1}
"""Notice.Type by trap: 1 urgent (IBA 14.2.5.1)."""


@dataclass
class Delivery:
    """MADs that reached a port whose *client* (subnet manager, application) must handle them.

    SMInfo, traps and reports, every class but 0x01, 0x81 and 0x04, and responses that clients send. ``batch`` holds
    them as they arrive (return path filled); ``rows`` are their rows in the batch that was sent, ``ports`` the end
    ports whose client they are for (a CA port, or port 0 of a switch), ``sender`` the port they left.
    """

    batch: MadBatch
    rows: np.ndarray
    ports: np.ndarray
    sender: int


@dataclass(frozen=True)
class Notice:
    """A trap that a device wants to send: virtual time, end port of the device, trap number (IBA 13.4.8.2), detail.

    ``detail`` of trap 128 (link state): the portnum that changed.
    """

    now_ps: int
    port: int
    trap: int
    detail: int


class AgentPlane:
    """All agents of ``fabric``. They answer from its arrays and write them; nothing is copied.

    MADs that nobody on the way answers (no such path, link down, no route, unknown MAD version, M_Key refused) are
    simply absent from the answers. What a client must handle collects in :meth:`take_deliveries`, traps in
    :meth:`take_notices`.
    """

    def __init__(self, fabric: Fabric):
        self.fabric = fabric
        self.tables = tables_of(fabric)
        self._deliveries: list[Delivery] = []
        self._counts = np.zeros(2, np.int64)

    def send(self, batch: MadBatch, port: int, now_ps: int = 0) -> MadBatch:
        """Send ``batch`` from ``port`` (row of a CA port or of a switch's port 0) and return the answers.

        Answers are in the order of their requests, addressed as they arrive at ``port``. Rows of ``batch`` are
        processed in order and ``batch`` is not changed. Raises :class:`InputError` when ``port`` owns no QP0.
        """
        answers, delivery = self.exchange(batch, port, now_ps)
        if delivery is not None:
            self._deliveries.append(delivery)
        return answers

    def exchange(self, batch: MadBatch, port: int, now_ps: int = 0) -> tuple[MadBatch, Delivery | None]:
        """As :meth:`send`, with what clients must handle beside the answers."""
        self._check_sender(port)
        mad = batch.mad
        n = len(mad)
        if mad.shape != (n, MAD_SIZE) or len(batch.dlid) != n:
            raise SoftibBug(f"a batch of {len(batch.dlid)} LIDs and MADs of shape {mad.shape}: want (n, {MAD_SIZE})")
        if mad.dtype != np.uint8 or not mad.flags.c_contiguous or not mad.flags.writeable:
            mad = np.array(mad, np.uint8, order="C")
        dlid = np.ascontiguousarray(batch.dlid, np.uint16)
        if not dlid.flags.writeable:
            dlid = dlid.copy()
        out = np.empty((n, MAD_SIZE), np.uint8)
        rows, client_rows, client_ports = np.empty((3, n), np.int64)
        slids, dlids = np.empty((2, n), np.uint16)
        tids = np.empty(n, np.uint64)
        serve(
            self.tables, int(port), int(now_ps), mad.view(np.uint64), dlid, out, out.view(np.uint64),
            rows, slids, dlids, tids, client_rows, client_ports, self._counts,
        )  # fmt: skip
        k, clients = self._counts.tolist()
        picked = rows[:k]
        if k == n:
            qp, sl, pkey_index = batch.qp.copy(), batch.sl.copy(), batch.pkey_index.copy()
        else:
            qp, sl, pkey_index = batch.qp[picked], batch.sl[picked], batch.pkey_index[picked]
        answers = MadBatch(out[:k], dlids[:k], slids[:k], qp, sl, pkey_index, tids[:k], np.zeros(k, np.uint16))
        if not clients:
            return answers, None
        where = client_rows[n - clients :][::-1]
        arrived = batch[where]
        arrived.mad = out[n - clients :][::-1].copy()
        # The hardware fills in the source LID of what leaves by LID.
        blank = (arrived.mad[:, 1] != MgmtClass.SUBN_DR) & ((arrived.slid == 0) | (arrived.slid == LID_PERMISSIVE))
        arrived.slid[blank] = PortInfo.lid.get(self.fabric.port_info[port])
        return answers, Delivery(arrived, where.copy(), client_ports[n - clients :][::-1].copy(), port)

    def set_link(self, port: int, up: bool, now_ps: int = 0) -> None:
        """The hardware's doing, not a MAD's: the link at ``port`` fails, or trains again (both ends; a disabled end
        stays disabled). Switches at its ends raise PortStateChange and trap 128.
        """
        set_link(self.tables, int(port), bool(up), int(now_ps))

    def take_deliveries(self) -> list[Delivery]:
        """What :meth:`send` found for clients since the last call, oldest first."""
        taken, self._deliveries = self._deliveries, []
        return taken

    def take_notices(self) -> list[Notice]:
        """Traps that devices raised since the last call, oldest first."""
        used = int(self.tables.notice_count[0])
        taken = [Notice(*row) for row in self.tables.notices[:used].tolist()]
        self.tables.notice_count[:] = 0
        return taken

    def trap(self, notice: Notice) -> tuple[MadBatch, int] | None:
        """The trap MAD of ``notice`` to the master SM that the port knows, and the port it leaves; None when the port
        knows none. Send it with :meth:`send`: it arrives as a delivery at the SM's port (IBA 13.4.9, 14.2.5.1).
        """
        info = self.fabric.port_info[notice.port]
        sm_lid, lid = int(PortInfo.master_sm_lid.get(info)), int(PortInfo.lid.get(info))
        if not sm_lid or not lid:
            return None
        batch = MadBatch.zeros(1)
        header = MadHeader.pack(base_version=1, mgmt_class=MgmtClass.SUBN_LID, class_version=1, method=Method.TRAP,
                                attr_id=SmpAttr.NOTICE)  # fmt: skip
        producer = int(self.fabric.node_type[self.fabric.port_node[notice.port]])
        batch.mad[0, : MadHeader.size] = header
        batch.mad[0, 64:128] = wire.Notice.pack(
            is_generic=1, type=TRAP_TYPE[notice.trap], producer_type=producer, trap_number=notice.trap, issuer_lid=lid,
            data_details=wire.TrapLinkState.pack(lid=lid),
        )  # fmt: skip
        batch.dlid[0], batch.slid[0] = sm_lid, lid
        batch.sl[0] = PortInfo.master_sm_sl.get(info)
        return batch, notice.port

    def _check_sender(self, port: int) -> None:
        f = self.fabric
        if not 0 <= port < f.sizes.ports:
            raise InputError(f"no port row {port}; this fabric has rows 0 to {f.sizes.ports - 1}")
        if f.port_num[port] and f.switch_of_node[f.port_node[port]] >= 0:
            raise InputError(f"{f.port_name(port)} cannot send MADs: only port 0 of a switch and CA ports have a QP0")
