"""An rdma_cm id in the daemon: its state (IBA 12.9.7, with the kernel's names), its path, and the
port space of its service ID (IBA annex A11; Linux cma.c)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

from softib.iba.cm import CmaHeader
from softib.iba.mad_codec import codec
from softib.iba.sa import PathRecord, Selector

__all__ = [
    "CA_ACK_DELAY",
    "IPOIB_QKEY",
    "PS",
    "UDP_QKEY",
    "Endpoint",
    "Event",
    "Param",
    "Path",
    "QpType",
    "State",
    "ack_timeout",
    "cma_header",
    "qkey_of",
]


CA_ACK_DELAY = 15
"""Local CA Ack Delay of softib's adapters: 4.096 us * 2^15 = 0.13 s. ConnectX adapters report 15 or
16."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path from a port (``sgid``, ``slid``) to another port. ``mtu``, ``rate`` and ``life_time``
    are codes of the SA."""

    sgid: bytes
    dgid: bytes
    slid: int
    dlid: int
    pkey: int
    sl: int
    mtu: int
    rate: int
    life_time: int
    hop_limit: int = 0
    tclass: int = 0
    flow_label: int = 0
    octets: bytes = b""
    """The path as the bytes of a PathRecord."""

    @classmethod
    def of(cls, record: bytes) -> Path:
        """Return the path in a PathRecord's bytes."""
        r = codec(PathRecord).unpack(record)
        return cls(
            sgid=r["sgid"],
            dgid=r["dgid"],
            slid=r["slid"],
            dlid=r["dlid"],
            pkey=r["pkey"],
            sl=r["sl"],
            mtu=r["mtu"],
            rate=r["rate"],
            life_time=r["packet_life_time"],
            hop_limit=r["hop_limit"],
            tclass=r["tclass"],
            flow_label=r["flow_label"],
            octets=record[: PathRecord.size],
        )

    @classmethod
    def back(cls, req: dict) -> Path:
        """Return the path to the sender of this REQ: its primary path, from the receiver's side."""
        life_time = req["primary_local_ack_timeout"]
        return cls.of_fields(
            sgid=req["primary_remote_gid"],
            dgid=req["primary_local_gid"],
            slid=req["primary_remote_lid"],
            dlid=req["primary_local_lid"],
            pkey=req["pkey"],
            sl=req["primary_sl"],
            mtu=req["path_mtu"],
            rate=req["primary_packet_rate"],
            life_time=life_time - (life_time > 0),
            hop_limit=req["primary_hop_limit"],
            tclass=req["primary_traffic_class"],
            flow_label=req["primary_flow_label"],
        )

    @classmethod
    def of_group(cls, m: dict, slid: int) -> Path:
        """Return the path to a multicast group, from the fields of its MCMemberRecord."""
        return cls.of_fields(
            sgid=m["port_gid"],
            dgid=m["mgid"],
            slid=slid,
            dlid=m["mlid"],
            pkey=m["pkey"],
            sl=m["sl"],
            mtu=m["mtu"],
            rate=m["rate"],
            life_time=m["packet_life_time"],
            hop_limit=m["hop_limit"],
            tclass=m["tclass"],
            flow_label=m["flow_label"],
        )

    @classmethod
    def of_fields(cls, **fields: int | bytes) -> Path:
        """Return a path with these fields, and its PathRecord."""
        exactly = dict.fromkeys(("mtu_selector", "rate_selector", "packet_life_time_selector"), Selector.EXACTLY)
        named = {"packet_life_time" if n == "life_time" else n: v for n, v in fields.items()}
        octets = codec(PathRecord).pack(reversible=1, numb_path=1, **exactly, **named)
        return cls(**fields, octets=octets)  # type: ignore[arg-type]


def ack_timeout(life_time: int) -> int:
    """Return the Local ACK Timeout of a path as an exponent: the time for both directions, and the
    adapter's delay (IBA 12.7.34)."""
    both = life_time + 1
    if both >= CA_ACK_DELAY:
        both += both - 1 <= CA_ACK_DELAY
    else:
        both = CA_ACK_DELAY + (both >= CA_ACK_DELAY - 1)
    return min(both, 31)


def cma_header(source: bytes, target: bytes, port: int) -> bytes:
    """Return the CMA's 36 bytes for two IPv4 addresses (annex A11)."""
    return codec(CmaHeader).pack(ip_version=4, port=port, source=bytes(12) + source, target=bytes(12) + target)


class PS:
    """Port spaces (``enum rdma_ucm_port_space``): bits 16 to 31 of a service ID (IBA annex A11)."""

    IPOIB, IB, TCP, UDP = 0x0002, 0x013F, 0x0106, 0x0111


UDP_QKEY = 0x01234567
"""Q_Key of groups and QPs in rdma_cm's port spaces, except IPoIB's (RDMA_UDP_QKEY)."""
IPOIB_QKEY = 0x0B1B
"""The Q_Key of IPoIB's groups (RFC 4391)."""


def qkey_of(ps: int) -> int:
    """Return the default Q_Key of an id in port space ``ps`` (Linux cma.c,
    cma_set_default_qkey)."""
    return IPOIB_QKEY if ps == PS.IPOIB else UDP_QKEY


class State(IntEnum):
    """State of a connection, or of the resolution of a service ID (SIDR)."""

    IDLE = auto()
    LISTEN = auto()
    HELD = auto()  # a request that waits for a listener; the specification has no such state
    REQ_SENT = auto()
    REQ_RCVD = auto()
    REP_SENT = auto()
    REP_RCVD = auto()
    ESTABLISHED = auto()
    DREQ_SENT = auto()
    DREQ_RCVD = auto()
    TIMEWAIT = auto()
    SIDR_REQ_SENT = auto()
    SIDR_REQ_RCVD = auto()
    SIDR_DONE = auto()


class Event(IntEnum):
    """``enum rdma_cm_event_type`` of librdmacm's ABI."""

    ADDR_RESOLVED = 0
    ADDR_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVAL = 11
    MULTICAST_JOIN = 12
    MULTICAST_ERROR = 13
    ADDR_CHANGE = 14
    TIMEWAIT_EXIT = 15
    USER = 18
    INTERNAL = 19


class QpType(IntEnum):
    """``enum ibv_qp_type``."""

    RC = 2
    UC = 3
    UD = 4
    XRC_SEND = 9
    XRC_RECV = 10


@dataclass(frozen=True, slots=True)
class Param:
    """The parameters of a program that connects or accepts (``struct rdma_conn_param``)."""

    qpn: int = 0
    qkey: int = 0
    psn: int = 0
    srq: int = 0
    responder_resources: int = 0
    initiator_depth: int = 0
    flow_control: int = 0
    retry_count: int = 0
    rnr_retry_count: int = 0
    private_data: bytes = b""
    ece_vendor: int = 0
    ece_options: int = 0


@dataclass(slots=True, eq=False)
class Endpoint:
    """The data of an id; :mod:`softib.cm.transitions` changes its state.

    ``owner`` is the process that owns the id, ``number`` the id's number in this process, and
    ``channel`` the destination of its events. ``ports`` are the rows of the ports to which it is
    bound; it serves ``service_id`` under ``service_mask``. ``port`` is the row of the port in use,
    -1 if it is not known yet. ``source`` and ``target`` are socket addresses as bytes.
    """

    owner: Any
    number: int
    channel: int
    ps: int
    qp_type: int
    state: State = State.IDLE
    flags: int = 0
    ports: tuple[int, ...] = ()
    service_id: int = 0
    service_mask: int = (1 << 64) - 1
    target_service: int = 0
    """The service ID to which it connects."""
    source: bytes = b""
    target: bytes = b""
    port: int = -1
    sgid: bytes = bytes(16)
    dgid: bytes = bytes(16)
    wanted_pkey: int = 0
    path: Path | None = None
    listener: Endpoint | None = None
    """The listening id of a request that its program has not answered yet."""
    backlog: int = 0
    waiting: int = 0
    """Number of requests to this listener that the program has not answered yet."""
    events_enabled: bool = True
    """Whether events are reported. The id of a request gets events only after its program accepted
    it."""
    sent: int = 0
    """Events that were sent to the endpoint's program."""
    comm_id: int = 0
    peer_comm_id: int = 0
    peer_tid: int = 0
    """TransactionID of the peer's request; all answers to the request contain it."""
    peer_guid: int = 0
    """NodeGUID of the requester. For a SIDR_REQ, it is the negative LID of the sender."""
    qpn: int = 0
    """QPN of the local queue pair."""
    peer_qpn: int = 0
    peer_slid: int = 0
    last_mad: bytes = b""
    """The message that is sent again if it is not answered, or if the peer repeats the message that
    it answers."""
    retries_left: int = 0

    @property
    def is_ud(self) -> bool:
        """Return whether the endpoint resolves service IDs instead of connecting."""
        return self.qp_type == QpType.UD
