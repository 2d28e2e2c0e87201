"""An id of rdma_cm as the daemon knows it, and where it stands (states of IBA 12.9.7, by the kernel's names)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Any

from softib.cm.path import Path

__all__ = ["Endpoint", "Event", "Param", "QpType", "State"]


class State(Enum):
    """Of a connection, or of the resolution of a service ID (SIDR)."""

    IDLE = auto()
    LISTEN = auto()
    HELD = auto()
    RELEASE_HELD = auto()
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


class QpType(IntEnum):
    """``enum ibv_qp_type``."""

    RC = 2
    UC = 3
    UD = 4
    XRC_SEND = 9
    XRC_RECV = 10


@dataclass(frozen=True, slots=True)
class Param:
    """What a program says when it connects or accepts (``struct rdma_conn_param``)."""

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
    """``owner`` is whose id it is (a process), ``number`` its name there, ``channel`` where its events go.

    ``ports`` are the port rows that it is bound to, ``service_id`` the service under ``service_mask``; ``port`` the row
    of the one that it uses, -1 before that is known. ``source`` and ``target`` are socket addresses as octets.
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
    """Whom it asks for."""
    source: bytes = b""
    target: bytes = b""
    port: int = -1
    sgid: bytes = bytes(16)
    dgid: bytes = bytes(16)
    wanted_pkey: int = 0
    path: Path | None = None
    listener: Endpoint | None = None
    backlog: int = 0
    waiting: int = 0
    """Of a listener: requests that the program has not answered yet."""
    told: bool = True
    """May get events: a child only after its program accepted it."""
    sent: int = 0
    comm_id: int = 0
    peer_comm_id: int = 0
    peer_guid: int = 0
    qpn: int = 0
    """Of its own queue pair."""
    peer_qpn: int = 0
    asked: Param = field(default_factory=Param)
    peer_slid: int = 0
    reply: bytes = b""
    """The message that is sent again when its answer does not come, or when the other side asks again."""
    tries: int = 0
    timer: int = 0
    """Number of the timer that runs for it; others that run off are old."""

    @property
    def is_ud(self) -> bool:
        """Resolves service IDs instead of connecting."""
        return self.qp_type == QpType.UD
