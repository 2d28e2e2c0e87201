"""Memory and queue pairs for NVMe queues, created with libibverbs (:mod:`softib.ulp.nvmeof.rdma_core`)."""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import mmap
import os
import socket
from ctypes import byref, c_int, c_uint16, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.errors import PeerError
from softib.iba.roce_frames import RoceEnds
from softib.live.sysfs.roce import mac_of_gid
from softib.ulp.nvmeof.rdma_core import (
    CALLS,
    OPS_AT,
    ConnParam,
    QpInitAttr,
    bind_calls,
    created,
    failed_call,
    rdmacm,
    verbs,
    word,
)

if TYPE_CHECKING:
    from softib.ulp.nvmeof.connections import ConnectionRequest

__all__ = [
    "Memory",
    "Path",
    "QueuePair",
]

QPN_AT, LKEY_AT, CHANNEL_FD_AT = 52, 36, 8
"""Offsets of these fields in ``ibv_qp``, ``ibv_mr`` and ``ibv_comp_channel``."""
QP_ATTR_SIZE, PORT_ATTR_SIZE, GID_ENTRY_SIZE = 144, 52, 32
ETHERNET = 2
"""``ibv_port_attr.link_layer``; the types of ``ibv_gid_entry`` are 1 for RoCE v1 and 2 for RoCE v2."""
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4
QPT_RC = 2
READS = 16
"""Maximum number of outstanding RDMA READs on a connection, as on an HCA."""
RETRIES, RNR_FOREVER = 7, 7


class Memory:
    """Registered memory: ``data`` (uint8), page-aligned. Without ``pd`` it is not registered."""

    def __init__(self, pd: int, size: int, remote: bool = False):
        self._map = mmap.mmap(-1, max(size, 1))
        self.data = np.frombuffer(self._map, np.uint8)
        self.address = self.data.ctypes.data
        self.lkey = self.rkey = self._region = 0
        if not pd:
            return
        access = LOCAL_WRITE | (REMOTE_WRITE | REMOTE_READ if remote else 0)
        self._region = verbs().ibv_reg_mr(pd, self.address, size, access)
        if not self._region:
            raise PeerError(
                f"cannot register {size:,} bytes of memory: {os.strerror(ctypes.get_errno() or errno.ENOMEM)}; free "
                "memory, or use fewer queues or a smaller queue depth"
            )
        self.lkey, self.rkey = word(self._region + LKEY_AT, c_uint32), word(self._region + LKEY_AT + 4, c_uint32)

    def close(self) -> None:
        """Deregister the memory."""
        if self._region:
            verbs().ibv_dereg_mr(self._region)
            self._region = 0


class Path(NamedTuple):
    """The addresses in a connection's packets. ``sends_from``, ``receives_from``: initial PSN of each direction;
    ``roce``: the addresses of RoCE frames, None over InfiniBand."""

    lid: int
    peer_lid: int
    qpn: int
    peer_qpn: int
    sends_from: int
    receives_from: int
    mtu: int
    sl: int
    pkey: int
    roce: RoceEnds | None


class QueuePair:
    """An RC queue pair on an ``rdma_cm_id``, with its completion queue, completion channel and protection domain."""

    def __init__(self, identifier: Any, sends: int, receives: int):
        self.id, self._pd, self._channel, self._cq, self._qp = identifier, 0, 0, 0, False
        self.armed = False
        self._memories: list[Memory] = []
        lib, context = verbs(), identifier.contents.verbs
        if not context:
            raise PeerError("the connection has no RDMA device")
        bind_calls(context)
        try:
            self._pd = created(lib.ibv_alloc_pd(context), "ibv_alloc_pd")
            self._channel = created(lib.ibv_create_comp_channel(context), "ibv_create_comp_channel")
            self.channel_fd = word(self._channel + CHANNEL_FD_AT, c_int)
            os.set_blocking(self.channel_fd, False)
            self._cq = created(lib.ibv_create_cq(context, sends + receives, None, self._channel, 0), "ibv_create_cq")
            attributes = QpInitAttr(
                qp_context=None,
                send_cq=self._cq,
                recv_cq=self._cq,
                srq=None,
                max_send_wr=sends,
                max_recv_wr=receives,
                max_send_sge=2,
                max_recv_sge=1,
                max_inline_data=64,
                qp_type=QPT_RC,
                sq_sig_all=0,
            )
            if rdmacm().rdma_create_qp(identifier, self._pd, byref(attributes)):
                raise failed_call("rdma_create_qp")
            self._qp = True
        except PeerError:
            self.close()
            raise
        self._notify = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)(word(context + OPS_AT + CALLS["req_notify_cq"]))

    @property
    def pointers(self) -> tuple[int, int]:
        """Return the addresses of the completion queue and of the queue pair, for kernels."""
        return self._cq, int(self.id.contents.qp)

    @property
    def local_address(self) -> str:
        """Return the IPv4 address of this end."""
        return str(ipaddress.IPv4Address(bytes(self.id.contents.address)))

    def path(self) -> Path:
        """Return the addresses in the connection's packets (from ``ibv_query_qp`` and ``ibv_query_port``)."""
        lib, qp = verbs(), int(self.id.contents.qp)
        state, attributes = np.zeros(QP_ATTR_SIZE, np.uint8), np.zeros(64, np.uint8)
        port, pkey, everything = np.zeros(PORT_ATTR_SIZE, np.uint8), c_uint16(), (1 << 21) - 1
        if lib.ibv_query_qp(qp, state.ctypes.data, everything, attributes.ctypes.data):
            raise failed_call("ibv_query_qp")
        number = int(state[86])
        if lib.ibv_query_port(self.id.contents.verbs, number, port.ctypes.data):
            raise failed_call("ibv_query_port")
        lib.ibv_query_pkey(self.id.contents.verbs, number, int(state[120:122].view("<u2")[0]), byref(pkey))
        mtu, rq_psn, sq_psn, peer = (int(state[at : at + 4].view("<u4")[0]) for at in (8, 20, 24, 28))
        lids = int(port[34:36].view("<u2")[0]), int(state[80:82].view("<u2")[0])
        qpn = word(qp + QPN_AT, c_uint32)
        roce = self._roce(number, int(state[76]), state[56:72].tobytes()) if port[46] == ETHERNET else None
        return Path(
            *lids,
            qpn,
            peer,
            sends_from=sq_psn,
            receives_from=rq_psn,
            mtu=128 << mtu,
            sl=int(state[82]),
            pkey=socket.ntohs(pkey.value),
            roce=roce,
        )

    def _roce(self, port: int, index: int, peer: bytes) -> RoceEnds:
        """Return the addresses of RoCE frames between GID ``index`` of ``port`` and GID ``peer``."""
        lib, entry = verbs(), np.zeros(GID_ENTRY_SIZE, np.uint8)
        if lib._ibv_query_gid_ex(self.id.contents.verbs, port, index, entry.ctypes.data, 0, GID_ENTRY_SIZE):
            raise failed_call("ibv_query_gid_ex")
        gid, version = entry[:16].tobytes(), int(entry[24:28].view("<u4")[0])
        return RoceEnds(mac_of_gid(gid), gid, mac_of_gid(peer), peer, version)

    def memory(self, size: int, remote: bool = False) -> Memory:
        """Return ``size`` bytes of memory that stays registered until this queue pair is closed."""
        memory = Memory(self._pd, size, remote)
        self._memories.append(memory)
        return memory

    def another_domain(self) -> int:
        """Return a second protection domain of the device, for :class:`Memory`; it exists as long as the process."""
        return created(verbs().ibv_alloc_pd(self.id.contents.verbs), "ibv_alloc_pd")

    def arm(self) -> None:
        """Request an event with the next completion; the caller must poll again before it waits."""
        self._notify(self._cq, 0)
        self.armed = True

    def take_events(self) -> None:
        """Read and acknowledge the events of the completion channel."""
        cq, context, count = c_void_p(), c_void_p(), 0
        while not verbs().ibv_get_cq_event(self._channel, byref(cq), byref(context)):
            count += 1
        if count:
            verbs().ibv_ack_cq_events(self._cq, count)
            self.armed = False

    def accept(self, private_data: bytes, request: ConnectionRequest) -> None:
        """Accept the connection. Raises :class:`PeerError`."""
        buffer = ctypes.create_string_buffer(private_data, len(private_data))
        serves, reads = min(READS, request.responder_resources), min(READS, request.initiator_depth)
        size = len(private_data)
        parameters = ConnParam(
            private_data=ctypes.addressof(buffer),
            private_data_len=size,
            responder_resources=serves,
            initiator_depth=reads,
            flow_control=1,
            retry_count=RETRIES,
            rnr_retry_count=RNR_FOREVER,
            srq=0,
            qp_num=0,
        )
        if rdmacm().rdma_accept(self.id, byref(parameters)):
            raise failed_call("rdma_accept")

    def disconnect(self) -> None:
        """Disconnect; posted requests complete with the status "flushed"."""
        if self._qp:
            rdmacm().rdma_disconnect(self.id)

    def close(self) -> None:
        """Destroy the queue pair, the ``rdma_cm_id`` and their resources."""
        lib, cm = verbs(), rdmacm()
        if self._qp:
            cm.rdma_destroy_qp(self.id)
            self._qp = False
        if self._cq:
            self.take_events()
            lib.ibv_destroy_cq(self._cq)
        if self._channel:
            lib.ibv_destroy_comp_channel(self._channel)
        for memory in self._memories:
            memory.close()
        if self._pd:
            lib.ibv_dealloc_pd(self._pd)
        self._cq = self._channel = self._pd = 0
        self._memories = []
        if self.id is not None:
            cm.rdma_destroy_id(self.id)
            self.id = None
