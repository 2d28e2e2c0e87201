"""An id of rdma_cm as the daemon knows it, and its state (states of IBA 12.9.7, by the kernel's
names)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

from softib.cm.path import Path

__all__ = ["Endpoint", "Event", "Param", "QpType", "State"]


class State(IntEnum):
    """Of a connection, or of the resolution of a service ID (SIDR)."""

    IDLE = auto()
    LISTEN = auto()
    HELD = auto()  # a request that waits for its listener; the specification has no such state
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
    """What a program passes when it connects or accepts (``struct rdma_conn_param``)."""

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
    """Data only: :mod:`softib.cm.transitions` moves it from state to state.

    ``owner`` is the process whose id it is, ``number`` the id's number there, ``channel`` where its
    events go. ``ports`` are the port rows that it is bound to, ``service_id`` the service under
    ``service_mask``; ``port`` the row of the one that it uses, -1 before that is known. ``source``
    and ``target`` are socket addresses as bytes.
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
    """The service that it connects to."""
    source: bytes = b""
    target: bytes = b""
    port: int = -1
    sgid: bytes = bytes(16)
    dgid: bytes = bytes(16)
    wanted_pkey: int = 0
    path: Path | None = None
    listener: Endpoint | None = None
    """Of a request that its program has not answered yet: the id that listened."""
    backlog: int = 0
    waiting: int = 0
    """Of a listener: requests that the program has not answered yet."""
    events_enabled: bool = True
    """A request's id gets events only after its program accepted it."""
    sent: int = 0
    """Events that were sent to its program."""
    comm_id: int = 0
    peer_comm_id: int = 0
    peer_guid: int = 0
    """NodeGUID of the requester; of a SIDR_REQ the negative LID of its sender."""
    qpn: int = 0
    """Of the local queue pair."""
    peer_qpn: int = 0
    peer_slid: int = 0
    last_mad: bytes = b""
    """Sent again when its answer does not come, or when the peer repeats what it answers."""
    retries_left: int = 0

    @property
    def is_ud(self) -> bool:
        """It resolves service IDs instead of connecting."""
        return self.qp_type == QpType.UD
