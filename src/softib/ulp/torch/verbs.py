"""Reliable connections between all ranks of a group, over verbs (pyverbs), and the RDMA device and
port that a process uses."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import InputError, PeerError
from softib.ulp.torch.rendezvous import SLOT

__all__ = ["Device", "VerbsLinks", "load_pyverbs", "open_device"]


DEBIAN = Path("/usr/lib/python3/dist-packages")
"""Folder of Debian's python3-pyverbs; a virtual environment's module path does not include it."""
DEVICE_VARIABLE = "SOFTIB_TORCH_DEVICE"
PORT_ACTIVE = 4


def load_pyverbs() -> Any:
    """Return the package pyverbs with the required modules loaded. Raises :class:`InputError` if pyverbs is not
    installed for this Python."""
    try:
        import pyverbs.device
    except ImportError:
        sys.path.append(str(DEBIAN))  # last, so that the environment's packages precede Debian's
        try:
            import pyverbs.device
        except ImportError:
            raise InputError(
                f"pyverbs is not installed for Python {sys.version_info[0]}.{sys.version_info[1]}; on Debian it is "
                f"in the "
                "package python3-pyverbs"
            ) from None
        finally:
            sys.path.remove(str(DEBIAN))
    import pyverbs.addr
    import pyverbs.cq
    import pyverbs.enums
    import pyverbs.mr
    import pyverbs.pd
    import pyverbs.qp
    import pyverbs.wr

    return pyverbs


@dataclass
class Device:
    """An open device and its port."""

    verbs: Any
    context: Any
    portnum: int
    lid: int
    mtu: int
    name: str


def open_device() -> Device:
    """Return the device and port named by ``$SOFTIB_TORCH_DEVICE`` (``mlx5_0`` or ``mlx5_0:1``); by default, rank
    ``$LOCAL_RANK`` of the node gets the active port with this number, modulo the number of ports. Raises
    :class:`InputError` if no port is active."""
    verbs = load_pyverbs()
    wanted, _, wanted_port = os.environ.get(DEVICE_VARIABLE, "").partition(":")
    names = [device.name.decode() for device in verbs.device.get_device_list()]
    if not names:
        raise InputError("no RDMA device is here; start the program with 'softib run -- …'")
    if wanted and wanted not in names:
        raise InputError(f"${DEVICE_VARIABLE}: no device {wanted!r}; there are {', '.join(names)}")
    ports = []
    for name in [wanted] if wanted else names:
        context = verbs.device.Context(name=name)
        for portnum in range(1, context.query_device().phys_port_cnt + 1):
            port = context.query_port(portnum)
            if port.state == PORT_ACTIVE and (not wanted_port or str(portnum) == wanted_port):
                ports.append(Device(verbs, context, portnum, port.lid, port.active_mtu, f"{name}:{portnum}"))
    if not ports:
        raise InputError(
            f"no port of {', '.join([wanted] if wanted else names)} is active; check that a subnet manager is running"
        )
    chosen = ports[int(os.environ.get("LOCAL_RANK", "0") or 0) % len(ports)]
    for other in {id(p.context): p.context for p in ports}.values():
        if other is not chosen.context:
            other.close()
    return chosen


RECV_SLOTS = 32
"""Number of control messages that a peer can send before one is received; further ones wait (RNR)."""
SEND_SLOTS = 32
READS = 16
"""Number of outstanding RDMA READs on a connection: the limit of an HCA (max_qp_rd_atom of the ConnectX
family)."""
PART = 1 << 30
"""Maximum length of one RDMA READ in bytes. (A message has at most 2 GiB, IBA 9.7.8.)"""
ACK_TIMEOUT, RETRIES, RNR_FOREVER, RNR_TIMER = 18, 7, 7, 12
"""Attributes of QPs. An attempt takes 4.096 µs · 2^18 = 1.07 s; RNR NAK timer code 12 is 0.64 ms (IBA table 45)."""
RECV, SEND, READ, PROBE = 0, 1, 2, 3
"""Kinds of work request: the two lowest bits of wr_id."""


@dataclass(eq=False)
class Link:
    """The connection to one peer: its QP, its free send slots, and the requests that wait for room."""

    qp: Any
    free: deque[int] = field(default_factory=lambda: deque(range(SEND_SLOTS)))
    reads: int = 0
    backlog: deque[tuple] = field(default_factory=deque)
    probed: bool = False
    dead: bool = False


class VerbsLinks:
    """Implementation of :class:`~softib.ulp.torch.rendezvous.Links` over verbs. Ranks exchange
    addresses through ``store``. Memory: ``RECV_SLOTS + SEND_SLOTS`` slots of ``SLOT`` bytes per peer.
    Raises :class:`InputError` without a device.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: Any):
        self.rank, self.size = rank, size
        self.device = open_device()
        self.v = v = self.device.verbs
        self.e = v.enums
        self.pd = v.pd.PD(self.device.context)
        self.access = self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_READ
        depth = size * (RECV_SLOTS + SEND_SLOTS + READS + 1)
        self.cq = v.cq.CQ(self.device.context, depth)
        octets = size * (RECV_SLOTS + SEND_SLOTS) * SLOT
        self._memory = ctypes.create_string_buffer(octets)
        self._base = ctypes.addressof(self._memory)
        self._slots = v.mr.MR(self.pd, octets, self.access, address=self._base)
        self.links = {peer: Link(self._make_qp()) for peer in range(size) if peer != rank}
        self._peer_of = {link.qp.qp_num: peer for peer, link in self.links.items()}
        self._parts: dict[tuple[int, int], int] = {}
        self._connect(store, timeout)

    # -- set-up --

    def _make_qp(self) -> Any:
        q = self.v.qp
        cap = q.QPCap(max_send_wr=SEND_SLOTS + READS + 1, max_recv_wr=RECV_SLOTS, max_send_sge=1, max_recv_sge=1)
        init = q.QPInitAttr(qp_type=self.e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        attr = q.QPAttr(port_num=self.device.portnum)
        attr.qp_access_flags = self.e.IBV_ACCESS_REMOTE_READ | self.e.IBV_ACCESS_REMOTE_WRITE
        qp = q.QP(self.pd, init)
        qp.to_init(attr)
        return qp

    def _connect(self, store: Any, timeout: Any) -> None:
        local = {
            "lid": self.device.lid,
            "mtu": int(self.device.mtu),
            "qpn": {p: link.qp.qp_num for p, link in self.links.items()},
        }
        store.set(f"softib/{self.rank}", json.dumps(local))
        for peer, link in self.links.items():
            for slot in range(RECV_SLOTS):
                self._post_recv(peer, slot)
            theirs = json.loads(store.get(f"softib/{peer}"))
            link.qp.to_rts(self._attributes(theirs))
        store.set(f"softib/{self.rank}/ready", b"1")
        store.wait([f"softib/{peer}/ready" for peer in self.links], timeout)

    def _attributes(self, theirs: dict[str, Any]) -> Any:
        attr = self.v.qp.QPAttr(port_num=self.device.portnum)
        attr.ah_attr = self.v.addr.AHAttr(dlid=theirs["lid"], port_num=self.device.portnum, is_global=0)
        attr.dest_qp_num, attr.path_mtu = theirs["qpn"][str(self.rank)], min(theirs["mtu"], int(self.device.mtu))
        attr.max_rd_atomic = attr.max_dest_rd_atomic = READS
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = ACK_TIMEOUT, RETRIES, RNR_FOREVER, RNR_TIMER
        return attr

    # -- requests of the wire --

    def send(self, peer: int, message: bytes) -> None:
        """Send ``message`` to ``peer``, now or as soon as there is room."""
        self._do(peer, (SEND, message))

    def read(self, peer: int, number: int, hold: Any, address: int, octets: int, remote: int, rkey: int) -> None:
        """Read ``octets`` bytes from address ``remote`` of ``peer`` to ``address``, with RDMA READs of up to ``PART``
        bytes."""
        starts = range(0, octets, PART)
        self._parts[peer, number] = len(starts)
        for start in starts:
            part = min(PART, octets - start)
            self._do(peer, (READ, number, hold.lkey, address + start, part, remote + start, rkey))

    def register(self, address: int, octets: int) -> tuple[Any, int]:
        """Register the caller's memory. Return the memory region, which is registered while this object exists."""
        region = self.v.mr.MR(self.pd, octets, self.access, address=address)
        return region, region.rkey

    def probe(self, peer: int) -> None:
        """Post an empty RDMA WRITE. It needs neither a key nor a receive (IBA C9-88), and only a live peer QP
        acknowledges it."""
        link = self.links[peer]
        if not (link.probed or link.dead):
            link.probed = True
            nothing = self.v.wr.SGE(self._base, 0, self._slots.lkey)  # pyverbs requires at least one SGE
            wr = self.v.wr.SendWR(wr_id=PROBE, opcode=self.e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[nothing])
            wr.set_wr_rdma(0, 0)
            self._post_to(peer, link, wr)

    def poll(self) -> list[tuple[str, int, Any]]:
        """See :meth:`softib.ulp.torch.rendezvous.Links.poll`."""
        return list(self._events())

    def _events(self) -> Iterator[tuple[str, int, Any]]:
        for wc in self.cq.poll(num_entries=64)[1]:
            peer = self._peer_of[wc.qp_num]
            link, kind, slot = self.links[peer], wc.wr_id & 3, wc.wr_id >> 2
            if wc.status != self.e.IBV_WC_SUCCESS:
                if not link.dead:
                    link.dead = True
                    link.backlog.clear()
                    yield "lost", peer, self.e.ibv_wc_status(wc.status).name
            elif kind == RECV:
                at = self._recv_slot(peer, slot) - self._base
                message = self._memory[at : at + wc.byte_len]
                self._post_recv(peer, slot)
                yield "message", peer, message
            elif kind == SEND:
                link.free.append(slot)
                self._go_on(peer)
            elif kind == PROBE:
                link.probed = False
            else:
                link.reads -= 1
                self._go_on(peer)
                self._parts[peer, slot] -= 1
                if not self._parts[peer, slot]:
                    del self._parts[peer, slot]
                    yield "read", peer, slot

    def close(self) -> None:
        """Destroy QPs, then CQs, memory regions and the domain."""
        for link in self.links.values():
            link.qp.close()
        self.cq.close()
        self._slots.close()
        self.pd.close()
        self.device.context.close()

    # -- posting --

    def _do(self, peer: int, work: tuple) -> None:
        link = self.links[peer]
        if link.dead:
            return
        if link.backlog or not self._post(peer, link, work):
            link.backlog.append(work)

    def _go_on(self, peer: int) -> None:
        link = self.links[peer]
        while link.backlog and self._post(peer, link, link.backlog[0]):
            link.backlog.popleft()

    def _post(self, peer: int, link: Link, work: tuple) -> bool:
        """Post ``work`` to ``peer``; return False if there is no room. Sends and reads stay in order, because they
        share one backlog."""
        w = self.v.wr
        if work[0] == SEND:
            if not link.free:
                return False
            slot, message = link.free.popleft(), work[1]
            at = self._base + ((self.size * RECV_SLOTS) + peer * SEND_SLOTS + slot) * SLOT
            ctypes.memmove(at, message, len(message))
            sge = w.SGE(at, len(message), self._slots.lkey)
            wr = w.SendWR(wr_id=slot << 2 | SEND, opcode=self.e.IBV_WR_SEND, num_sge=1, sg=[sge])
        else:
            if link.reads >= READS:
                return False
            _, number, lkey, address, octets, remote, rkey = work
            link.reads += 1
            sge = w.SGE(address, octets, lkey)
            wr = w.SendWR(wr_id=number << 2 | READ, opcode=self.e.IBV_WR_RDMA_READ, num_sge=1, sg=[sge])
            wr.set_wr_rdma(rkey, remote)
        self._post_to(peer, link, wr)
        return True

    @staticmethod
    def _post_to(peer: int, link: Link, wr: Any) -> None:
        try:
            link.qp.post_send(wr)
        except Exception as error:
            raise PeerError(f"rank {peer}: cannot post a work request: {error}") from None

    def _recv_slot(self, peer: int, slot: int) -> int:
        return self._base + (peer * RECV_SLOTS + slot) * SLOT

    def _post_recv(self, peer: int, slot: int) -> None:
        w = self.v.wr
        sge = w.SGE(self._recv_slot(peer, slot), SLOT, self._slots.lkey)
        self.links[peer].qp.post_recv(w.RecvWR(wr_id=slot << 2 | RECV, num_sge=1, sg=[sge]))
