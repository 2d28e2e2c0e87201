"""The management plane of a fabric: one call sends MADs to the firmware of all devices.

A batch of MADs is sent from a port, routed as hardware would, and returned as a batch of answers::

    plane = AgentPlane(fabric)
    answers = plane.send(requests, port=sm_port, now_ps=0)

Only this class writes the configuration of a running fabric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.agents.kernels.link_events import (
    raise_change_traps,
    raise_local_change,
    raise_trap,
    sample_until,
)
from softib.agents.kernels.serve import answer, serve
from softib.agents.layout import Outcome, tables_of
from softib.agents.link_faults import LinkFaults, plant_at_start
from softib.errors import InputError, SoftibBug
from softib.fabric.model import Fabric
from softib.fabric.optical_modules import fit_modules
from softib.iba import notice as wire
from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE, CapMask, Method, MgmtClass, SmpAttr
from softib.iba.smp import CLASS_AT, DATA_AT, MadHeader, PortInfo
from softib.mad.batch import MadBatch, mad_columns

__all__ = ["AgentPlane", "Delivery", "Notice"]


TRAP_TYPE = {128: 1, 129: 1, 130: 1, 131: 1, 144: 4, 145: 4, 256: 2, 257: 2, 258: 2, 259: 2, 1144: 4}
"""Notice.Type by trap number: 1 urgent, 2 security, 4 informational (IBA 14.2.5.1)."""
FIRST_ROWS = 64
ISSUER_LID_AT = {128: 0, 129: 2, 130: 2, 131: 2, 144: 2, 145: 2, 1144: 2}
"""Offset of the issuer's LID in DataDetails, by trap number."""


@dataclass
class Delivery:
    """MADs that arrived at a port and that its *client* (a subnet manager or an application) must
    process.

    These are SMInfo, traps and reports; MADs of every class except 0x01, 0x81, 0x04, 0x21 (and 0x0a
    on Mellanox devices); and responses that clients send. ``batch`` holds the MADs as they arrive
    (with the return path filled in), ``rows`` their rows in the batch that was sent, ``ports`` the
    end ports of their clients (a CA port, or port 0 of a switch), and ``sender`` the port that sent
    them.
    """

    batch: MadBatch
    rows: np.ndarray
    ports: np.ndarray
    sender: int


@dataclass(frozen=True)
class Notice:
    """A trap that a device wants to send: virtual time, end port of the device, trap number (IBA
    13.4.8.2) and detail.

    The ``detail`` of traps 128 to 131 is the portnum. ``data`` holds the 54 bytes of DataDetails
    without the issuer's LID.
    """

    now_ps: int
    port: int
    trap: int
    detail: int
    data: bytes = bytes(54)


class AgentPlane:
    """All agents of ``fabric``. They work on its arrays directly, without a copy.

    MADs without an answer are absent from the answers: the path does not exist, a link is down,
    there is no route, the MAD version is unknown, the M_Key is wrong, or a switch or the
    destination drops packets with this P_Key. :meth:`exchange` also returns MADs for clients;
    :meth:`take_notices` returns traps.
    """

    def __init__(self, fabric: Fabric, *, count_mads: bool = True, additional_counters: bool | None = None):
        """``count_mads``: MADs increase the port counters on their path. ``additional_counters``:
        True or False = all devices have, or no device has, QP1Dropped and the 64-bit error counters
        after byte 72 of PortCountersExtended (CapabilityMask2 bit 1). None: each device has those
        of its generation (:mod:`~softib.agents.layout`).
        """
        self.fabric = fabric
        fit_modules(fabric)
        self.tables = tables_of(fabric, count_mads, additional_counters)
        self.faults = LinkFaults(self)
        plant_at_start(self.faults)
        self.tap: Callable[[MadBatch, int, MadBatch], None] | None = None
        """Called with each batch, the port that sent it, and its answers."""
        self._make_scratch(FIRST_ROWS)

    def send(self, batch: MadBatch, port: int, now_ps: int = 0) -> MadBatch:
        """Send ``batch`` from ``port`` (row of a CA port, or of port 0 of a switch). Return the
        answers.

        Answers are in the order of their requests, with the addresses that they have when they
        arrive at ``port``. Rows of ``batch`` are processed in order; ``batch`` is not changed.
        Raises :class:`InputError` if ``port`` has no QP0.
        """
        return self.exchange(batch, port, now_ps)[0]

    def exchange(self, batch: MadBatch, port: int, now_ps: int = 0) -> tuple[MadBatch, Delivery | None]:
        """Send ``batch`` as :meth:`send` does. Also return MADs for clients."""
        self._check_sender(port)
        mad = batch.mad
        n = len(mad)
        if mad.shape != (n, MAD_SIZE) or {len(batch.dlid), len(batch.pkey_index), len(batch.sl)} != {n}:
            raise SoftibBug(
                f"a batch of {len(batch.dlid)} LIDs has MADs of shape {mad.shape}; the shape must be (n, {MAD_SIZE})"
            )
        if mad.dtype != np.uint8 or not mad.flags.c_contiguous or not mad.flags.writeable:
            mad = np.array(mad, np.uint8, order="C")
        if n > len(self._requests.dlid):
            self._make_scratch(max(n, 2 * len(self._requests.dlid)))
        q, a, o = self._requests, self._answers, self._outcome
        q.dlid[:n], q.sl[:n], q.pkey_index[:n] = batch.dlid, batch.sl, batch.pkey_index
        out = np.empty((n, MAD_SIZE), np.uint8)
        serve(self.tables, int(port), int(now_ps), mad.view(np.uint64), q, out, out.view(np.uint64), a, o)
        k, clients = o.served.tolist()
        picked = slice(None) if k == n else o.row[:k]
        answers = MadBatch(
            mad=out[:k],
            dlid=a.dlid[:k].copy(),
            slid=a.slid[:k].copy(),
            dqp=batch.sqp[picked].copy(),
            sqp=batch.dqp[picked].copy(),
            sl=batch.sl[picked].copy(),
            pkey_index=batch.pkey_index[picked].copy(),
            tid=a.tid[:k].copy(),
            status=np.zeros(k, np.uint16),
        )
        if self.tap is not None:
            self.tap(batch, port, answers)
        if not clients:
            return answers, None
        rows = o.client_row[n - clients : n][::-1].copy()
        arrived = batch[rows]
        arrived.mad = out[n - clients :][::-1].copy()
        # The hardware fills in the source LID of LID-routed MADs.
        blank = (arrived.mad[:, CLASS_AT] != MgmtClass.SUBN_DR) & (
            (arrived.slid == 0) | (arrived.slid == LID_PERMISSIVE)
        )
        arrived.slid[blank] = PortInfo.lid.get(self.fabric.port_info[port])
        return answers, Delivery(arrived, rows, o.client_port[n - clients : n][::-1].copy(), port)

    def answer(self, mad: np.ndarray, ingress: int, slid: int, now_ps: int) -> int:
        """Let the device process ``mad`` (uint8[256]), which enters through port ``ingress`` (port
        0 of a switch that is addressed by LID), and overwrite ``mad`` with the answer. This is for
        callers that carry MADs themselves, and count packets and check links.

        Return :data:`~softib.agents.kernels.dispatch.SILENT`, ``ANSWERED`` or ``FOR_CLIENT``.
        """
        return int(answer(self.tables, mad, int(ingress), int(now_ps), int(slid)))

    def _make_scratch(self, n: int) -> None:
        """Create columns for the addresses and results of up to ``n`` MADs. The MADs themselves are
        not copied, so the columns for them have no rows."""
        self._requests, self._answers = mad_columns(n, mads=0), mad_columns(n, mads=0)
        rows, client_rows, client_ports = np.zeros((3, n), np.int64)
        unused = [np.zeros(0, np.int64)] * (len(Outcome._fields) - 4)
        self._outcome = Outcome(rows, client_rows, client_ports, np.zeros(2, np.int64), *unused)

    def set_link(self, port: int, up: bool, now_ps: int = 0) -> None:
        """Let both ends of the link at ``port`` fail, or (``up``) train again, as an event of the
        hardware that no MAD causes. An end that is disabled stays disabled. Switches at the ends
        set PortStateChange and raise trap 128. :attr:`faults` has further faults.
        """
        if up:
            self.faults.mend(port, now_ps)
        else:
            self.faults.cut(port, now_ps)

    def advance(self, now_ps: int) -> int | None:
        """Advance sampling (PortSamplesControl) to this time. Return the time at which the next
        call is needed, or None if none is.

        Sampling begins and ends at the first call of :meth:`send` or ``advance`` at or after the
        due time.
        """
        sample_until(self.tables, int(now_ps))
        return self.next_sample_ps()

    def next_sample_ps(self) -> int | None:
        """Return the time at which the next sampling begins or ends; None if no port samples."""
        n = int(self.tables.samplers[0, 0])
        if not n:
            return None
        armed = self.tables.samplers[1 : 1 + n].tolist()
        return min(int(self.fabric.sample_ps[end, begun]) for end, _, begun in armed)

    def describe(self, node: int, text: str | bytes, now_ps: int = 0) -> None:
        """Change the NodeDescription of ``node``, as its host would. Its end ports raise trap 144
        (NodeDescription)."""
        octets = text.encode() if isinstance(text, str) else text
        self.fabric.node_desc[node] = np.frombuffer(octets[:64].ljust(64, b"\0"), np.uint8)
        raise_change_traps(self.tables, int(node), 1, int(now_ps))

    def set_is_sm(self, port: int, on: bool, now_ps: int = 0) -> None:
        """Change the bit IsSM of end port ``port``, as its host would. The port raises trap 144
        (CapabilityMask)."""
        info = self.fabric.port_info[port]
        before = int(PortInfo.cap_mask.get(info))
        after = before | CapMask.IS_SM if on else before & ~int(CapMask.IS_SM)
        if after != before:
            PortInfo.cap_mask.set(info, after)
            raise_local_change(self.tables, int(port), 0, int(now_ps))

    def set_sys_guid(self, node: int, guid: int, now_ps: int = 0) -> None:
        """Change the SystemImageGUID of ``node``, as its host would. Its end ports raise trap
        145."""
        self.fabric.sys_guid[node] = guid
        data = wire.TrapSysImageGuid.pack(sys_guid=guid)
        for end in self._end_ports_of(node):
            raise_trap(self.tables, end, 145, 0, data, int(now_ps))

    def _end_ports_of(self, node: int) -> list[int]:
        rows = self.fabric.ports_of(node, port0=True)
        if self.fabric.switch_of_node[node] >= 0:
            return [rows[0]]
        return [p for p in rows if self.fabric.port_peer[p] >= 0]

    def take_notices(self) -> list[Notice]:
        """Return the traps that devices raised since the last call, oldest first."""
        used = int(self.tables.notice_count[0])
        rows = zip(self.tables.notices[:used].tolist(), self.tables.notice_data[:used], strict=True)
        taken = [Notice(now, port, trap, detail, bytes(data)) for (now, port, trap, detail), data in rows]
        self.tables.notice_count[:] = 0
        return taken

    def trap(self, notice: Notice, tid: int = 0) -> tuple[MadBatch, int] | None:
        """Return the MAD of the trap ``notice``, addressed to the port's master SM, and the port
        that sends it; None if the port has no master SM. :meth:`send` delivers the MAD to the SM's
        port (IBA 13.4.9, 14.2.5.1). :class:`~softib.agents.trap_queue.TrapQueue` numbers and
        repeats traps."""
        info = self.fabric.port_info[notice.port]
        sm_lid, lid = int(PortInfo.master_sm_lid.get(info)), int(PortInfo.lid.get(info))
        if not sm_lid or not lid:
            return None
        details = np.frombuffer(notice.data, np.uint8).copy()
        if notice.trap in ISSUER_LID_AT:
            details[ISSUER_LID_AT[notice.trap] :][:2] = lid >> 8, lid & 255
        batch = MadBatch.zeros(1)
        header = MadHeader.pack(
            base_version=1,
            mgmt_class=MgmtClass.SUBN_LID,
            class_version=1,
            method=Method.TRAP,
            tid=tid,
            attr_id=SmpAttr.NOTICE,
        )
        producer = int(self.fabric.node_type[self.fabric.port_node[notice.port]])
        batch.mad[0, : MadHeader.size] = header
        batch.mad[0, DATA_AT : DATA_AT + 64] = wire.Notice.pack(
            is_generic=1,
            type=TRAP_TYPE[notice.trap],
            producer_type=producer,
            trap_number=notice.trap,
            issuer_lid=lid,
            data_details=details,
        )
        batch.dlid[0], batch.slid[0] = sm_lid, lid
        batch.sl[0] = PortInfo.master_sm_sl.get(info)
        return batch, notice.port

    def _check_sender(self, port: int) -> None:
        f = self.fabric
        if not 0 <= port < f.sizes.ports:
            raise InputError(f"port row {port} does not exist; this fabric has rows 0 to {f.sizes.ports - 1}")
        if f.port_num[port] and f.switch_of_node[f.port_node[port]] >= 0:
            raise InputError(f"{f.port_name(port)} cannot send MADs: only port 0 of a switch and CA ports have a QP0")
