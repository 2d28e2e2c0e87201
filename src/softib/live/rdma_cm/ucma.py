"""Execution of a program's rdma_cm commands, with the behaviour of Linux (drivers/infiniband/core/cma.c)."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable
from typing import Any, Protocol

from softib.cm.connections import TIMING, Connections, Timing, Unread, nothing_unread
from softib.cm.endpoint import Endpoint, Event, Param, Path, QpType, State, cma_header
from softib.cm.manager import CommunicationManager
from softib.cm.messages import event_fields
from softib.iba.cm import CmaHeader
from softib.iba.mad_codec import codec
from softib.live.rdma_cm.address import AF_IB, Address, Addresses, group_id, parse
from softib.live.rdma_cm.multicast import Groups
from softib.live.rdma_cm.over_ethernet import over_ethernet
from softib.live.rdma_cm.sa_client import SaClient
from softib.live.rdma_cm.services import ALL, Services, service_of
from softib.live.rdma_cm.wire import constant
from softib.live.sysfs.roce import is_ethernet

__all__ = ["Owner", "Ucma"]

CMA_HEAD = 36
QP_TYPES = frozenset(QpType)


class Owner(Protocol):
    """A process: the port rows that it sees, and its ids by number."""

    ports: tuple[int, ...]
    endpoints: dict[int, Endpoint]

    def child_number(self) -> int:
        """Return an unused id number for an incoming connection request."""


class Ucma:
    """Executes requests (``softib_cm_ask``). ``post(endpoint, fields)`` sends an event to the program that owns an
    id."""

    def __init__(
        self,
        addresses: Addresses,
        sa: SaClient,
        post: Callable[[Endpoint, dict[str, Any]], None],
        timing: Timing = TIMING,
        unread: Unread = nothing_unread,
    ):
        self.addresses, self.sa, self.post = addresses, sa, post
        self.services = Services()
        f = addresses.fabric
        self.connections = Connections(
            self.services.listener,
            self._new_child,
            self._report,
            lambda port: int(f.node_guid[f.port_node[port]]),
            timing,
            unread,
        )
        self.cm = CommunicationManager(self.connections)
        self.groups = Groups(addresses, sa, self._report)
        self._on: dict[str, Callable[[Endpoint, Any], int | None]] = {
            "BIND": self._bind,
            "RESOLVE_ADDR": self._resolve_addr,
            "RESOLVE_ROUTE": self._resolve_route,
            "LISTEN": self._listen,
            "CONNECT": self._connect,
            "ACCEPT": lambda e, q: self.cm.accept(e, self._param(q)),
            "READY": lambda e, q: self.cm.ready(e),
            "REJECT": lambda e, q: self.cm.reject(e, q.other, q.private_data[: q.private_length]),
            "DISCONNECT": lambda e, q: self.cm.disconnect(e),
            "NOTIFY": lambda e, q: self.cm.notify(e),
            "JOIN": self._join,
            "SET_PATH": self._set_path,
            "WRITE_EVENT": self._write_event,
        }

    def run(self, owner: Owner, op: str, q: Any) -> tuple[int, Endpoint | None]:
        """Execute ``op``; return an errno (0: success) and the id that the command concerns."""
        e = owner.endpoints.get(q.number)
        if op in ("DESTROY", "LEAVE"):
            if e is not None:
                self.destroy(e)
            return 0, e
        if e is None and (q.number >= constant("CHILD") or q.qp_type not in QP_TYPES):
            return errno.EINVAL, None
        if e is None:
            e = owner.endpoints[q.number] = Endpoint(owner, q.number, q.channel, q.ps, q.qp_type)
        if op == "MIGRATE":
            e.channel = q.other
            return 0, e
        if self.groups.holds(e):
            return errno.EINVAL, e
        e.flags = q.flags
        act = self._on.get(op)
        return ((act(e, q) or 0) if act else errno.ENOSYS), e

    def destroy(self, e: Endpoint) -> None:
        """Destroy the id."""
        e.events_enabled = False
        e.owner.endpoints.pop(e.number, None)
        if e.state is State.LISTEN:
            for child in [c for c in e.owner.endpoints.values() if c.listener is e]:
                self.destroy(child)
        self.groups.forget(e)
        self.cm.destroy(e)
        self.services.release(e)

    # -- contents of an event --

    def describe(self, e: Endpoint) -> dict[str, Any]:
        """Return the fields of ``softib_cm_reply`` for addresses, device and path."""
        fields: dict[str, Any] = {"source": e.source, "target": e.target}
        if e.port < 0:
            return fields
        a, f = self.addresses, self.addresses.fabric
        guid = int(f.node_guid[f.port_node[e.port]]).to_bytes(8, "big")
        pkey = e.path.pkey if e.path else e.wanted_pkey or a.first_pkey(e.port)
        fields |= {
            "devices": 1,
            "node_guid": int.from_bytes(guid, sys.byteorder),
            "portnum": int(f.port_num[e.port]),
            "pkey": pkey,
            "pkey_index": a.pkey_index(e.port, pkey) or 0,
            "sgid": e.sgid,
            "dgid": e.dgid,
        }
        if e.path:
            fields |= {
                "paths": 1,
                "path": e.path.octets,
                "is_global": int(e.path.hop_limit > 1 or e.dgid[0] == 0xFF),
                "path_bits": (e.path.slid - a.lid_of(e.port)) & 0x7F,
            }
        return over_ethernet(a, e.port, fields) if is_ethernet(f, e.port) else fields

    def _report(self, e: Endpoint, event: Event, status: int, message: dict[str, Any]) -> None:
        if not e.events_enabled and event is not Event.CONNECT_REQUEST:
            return
        head = CMA_HEAD if e.target[:1] != b"\x1b" else 0
        if event is Event.CONNECT_REQUEST:
            self._introduce(e, message)
            head = CMA_HEAD if e.target[:1] == bytes([socket.AF_INET]) else 0
        fields = event_fields(event, message, head) if "private_data" in message else dict(message)
        self.post(e, self.describe(e) | fields | {"event": event, "error": status & 0xFFFFFFFF, "number": e.number})

    def _new_child(self, listener: Endpoint) -> Endpoint:
        owner = listener.owner
        e = Endpoint(owner, owner.child_number(), listener.channel, listener.ps, listener.qp_type, listener=listener)
        owner.endpoints[e.number] = e
        return e

    def _introduce(self, e: Endpoint, message: dict[str, Any]) -> None:
        """Set the addresses of a request: those in the CMA's header, or the GIDs if the listener
        is bound to one."""
        assert e.listener is not None
        e.service_id = message["service_id"]
        e.sgid = self.addresses.gid_of(e.port)
        bound = parse(e.listener.source) if any(e.listener.source) else None
        if bound is not None and bound.family == AF_IB:
            e.source = Address(AF_IB, e.sgid, 0, e.service_id, ALL).octets()
            e.target = Address(AF_IB, e.dgid, 0, 0, ALL).octets()
            return
        cma = codec(CmaHeader).unpack(message["private_data"])
        source, target = (int.from_bytes(cma[n][12:], "big") for n in ("source", "target"))
        e.source = Address(socket.AF_INET, target, e.service_id & 0xFFFF).octets()
        e.target = Address(socket.AF_INET, source, cma["port"]).octets()
        peer = self.addresses.port_of(source)
        if e.path is None and peer is not None:
            e.dgid = self.addresses.gid_of(peer)

    # -- addresses --

    def _bind(self, e: Endpoint, q: Any) -> int:
        address = parse(q.source)
        return self._bind_to(e, address) if address is not None else errno.EADDRNOTAVAIL

    def _bind_to(self, e: Endpoint, address: Address) -> int:
        if e.ports or e.state is not State.IDLE or e.listener is not None:
            return errno.EINVAL
        ports = self.addresses.named(address, e.owner.ports)
        if not ports:
            return errno.ENODEV if e.owner.ports else errno.EADDRNOTAVAIL
        e.service_id, e.service_mask = service_of(e.ps, address)
        e.ports = ports
        if address.is_local and address.host is not None:  # peers must be able to reach this address
            address = Address(address.family, self.addresses.ip_of(ports[0]), address.port)
        e.source = address.octets()
        error = self.services.bind(e)
        if error:
            e.ports, e.source = (), b""
            return error
        e.wanted_pkey = address.pkey
        if address.host is not None:
            self._use_port(e, ports[0])
        e.source = address.octets(e.service_id & 0xFFFF)
        return 0

    def _use_port(self, e: Endpoint, port: int) -> None:
        e.port, e.sgid = port, self.addresses.gid_of(port)

    def _resolve_addr(self, e: Endpoint, q: Any) -> int:
        target, source = parse(q.target), parse(q.source) if any(q.source[:2]) else None
        failure = self._resolve(e, source, target)
        if failure:
            self._report(e, Event.ADDR_ERROR, -failure, {})
        else:
            self._report(e, Event.ADDR_RESOLVED, 0, {})
        return 0

    def _local_ports(self, e: Endpoint) -> tuple[int, ...]:
        """Return the ports of the id's host; ports that are up come first."""
        return tuple(sorted(e.owner.ports, key=lambda p: not self.addresses.is_active(p)))

    def _resolve(self, e: Endpoint, source: Address | None, target: Address | None) -> int:
        a = self.addresses
        if e.state is not State.IDLE or e.path is not None:
            return errno.EINVAL
        if target is None:
            return errno.EHOSTUNREACH
        if not e.ports and (error := self._bind_to(e, source or Address(target.family, None, pkey=target.pkey))):
            return error
        if target.is_multicast:
            peer = -1
        else:
            peers = a.named(target, self._local_ports(e) if target.is_local else self._everybody(target))
            if not peers:
                return errno.EHOSTUNREACH
            peer = peers[0]
        if e.port < 0:
            candidates = [peer] if peer in e.ports else [p for p in e.ports if a.is_active(p)]
            if not candidates:
                return errno.ENODEV
            self._use_port(e, candidates[0])
        e.dgid = group_id(target, a.first_pkey(e.port)) if peer < 0 else a.gid_of(peer)
        if target.family == AF_IB:
            e.source = Address(AF_IB, e.sgid, 0, e.service_id, ALL).octets()
            e.target_service = target.sid
            e.target = target.octets()
        else:
            bound = e.service_id & 0xFFFF
            e.source = Address(socket.AF_INET, a.ip_of(e.port), bound).octets()
            host = target.host if target.is_multicast else a.ip_of(peer)
            e.target = Address(socket.AF_INET, host, target.port).octets()
        return 0

    def _everybody(self, target: Address) -> tuple[int, ...]:
        a = self.addresses
        port = a.port_of_gid(target.host) if isinstance(target.host, bytes) else a.port_of(target.host or 0)
        return () if port is None else (port,)

    def _resolve_route(self, e: Endpoint, q: Any) -> int:
        if e.port < 0 or e.state is not State.IDLE:
            return errno.EINVAL

        def done(record: bytes | None, failure: int) -> None:
            if e.owner.endpoints.get(e.number) is not e or e.state is not State.IDLE:
                return
            if record is not None:
                self._take_path(e, record)
            else:
                self._report(e, Event.ROUTE_ERROR, failure, {})

        self.sa.path(e.port, e.sgid, e.dgid, e.wanted_pkey, q.timeout_ms, done)
        return 0

    def _set_path(self, e: Endpoint, q: Any) -> int:
        if e.port < 0 or e.state is not State.IDLE:
            return errno.EINVAL
        self._take_path(e, q.path)
        return 0

    def _write_event(self, e: Endpoint, q: Any) -> int:
        if q.other not in (Event.USER, Event.INTERNAL):
            return errno.EINVAL
        argument = q.private_data[:8]
        self.post(
            e,
            {
                "private_data": argument,
                "private_length": len(argument),
                "event": q.other,
                "error": q.timeout_ms,
                "number": e.number,
            },
        )
        return 0

    def _take_path(self, e: Endpoint, record: bytes) -> None:
        path = Path.of(record)
        if self.addresses.pkey_index(e.port, path.pkey) is None:
            self._report(e, Event.ROUTE_ERROR, -errno.EINVAL, {})
            return
        e.path = path
        self._report(e, Event.ROUTE_RESOLVED, 0, {})

    # -- connections --

    def _listen(self, e: Endpoint, q: Any) -> int:
        if e.state is not State.IDLE:
            return errno.EINVAL
        if not e.ports and (error := self._bind_to(e, Address(socket.AF_INET, None))):
            return error
        e.backlog = q.other
        error = self.services.check_listen(e)
        if not error:
            self.cm.listen(e)
        return error

    def _param(self, q: Any) -> Param:
        return Param(
            qpn=q.qpn,
            qkey=q.qkey,
            psn=q.psn,
            srq=q.srq,
            responder_resources=q.responder_resources,
            initiator_depth=q.initiator_depth,
            flow_control=q.flow_control,
            retry_count=q.retry_count,
            rnr_retry_count=q.rnr_retry_count,
            private_data=q.private_data[: q.private_length],
            ece_vendor=q.ece_vendor,
            ece_options=q.ece_options,
        )

    def _connect(self, e: Endpoint, q: Any) -> int:
        target, source = parse(e.target), parse(e.source)
        if e.path is None or e.state is not State.IDLE or target is None or source is None:
            return errno.EINVAL
        head = b""
        if target.family == socket.AF_INET:
            e.target_service = e.ps << 16 | target.port
            head = cma_header(e.source[4:8], e.target[4:8], source.port)
        self.cm.connect(e, self._param(q), head)
        return 0

    # -- multicast --

    def _join(self, e: Endpoint, q: Any) -> int:
        parent = e.owner.endpoints.get(q.other)
        address = parse(q.target)
        if parent is None or parent is e or parent.port < 0 or e.port >= 0 or e.ports or not parent.is_ud:
            return errno.EINVAL
        self.groups.join(e, parent, address, q.join_state)
        return 0
