"""Communication management MADs (IBA 12.6), declared once. All fields begin at byte 24 of the MAD.

GIDs, private data and the alternate path are declared as byte arrays.
"""

from __future__ import annotations

from enum import IntEnum

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "CLASS_VERSION",
    "DREP",
    "DREQ",
    "MESSAGES",
    "MRA",
    "REJ",
    "REP",
    "REQ",
    "RTU",
    "SIDR_REP",
    "SIDR_REQ",
    "CmAttr",
    "CmaHeader",
    "RejectReason",
    "SidrStatus",
    "Transport",
]

CLASS_VERSION = 2
"""Version of the communication management class (IBA 16.7.1)."""


class CmAttr(IntEnum):
    """Attribute IDs (IBA table 220)."""

    REQ = 0x10
    MRA = 0x11
    REJ = 0x12
    REP = 0x13
    RTU = 0x14
    DREQ = 0x15
    DREP = 0x16
    SIDR_REQ = 0x17
    SIDR_REP = 0x18


class Transport(IntEnum):
    """REQ.transport_service_type. With EXTENDED, extended type 1 is XRC (IBA 12.6.5)."""

    RC = 0
    UC = 1
    RD = 2
    EXTENDED = 3


class RejectReason(IntEnum):
    """REJ.reason (IBA 12.6.7.2). Only the reasons that softib sends are listed."""

    NO_QP = 1
    NO_RESOURCES = 3
    TIMEOUT = 4
    INVALID_COMM_ID = 6
    INVALID_SERVICE_ID = 8
    INVALID_TRANSPORT = 9
    STALE_CONNECTION = 10
    CONSUMER_DEFINED = 28


class SidrStatus(IntEnum):
    """SIDR_REP.status (IBA 12.11.2)."""

    VALID = 0
    INVALID_SERVICE_ID = 1
    REJECTED = 2
    NO_QP = 3


class REQ(Structure, size=232, attr=0x10, section="12.6.5"):
    """Request for communication."""

    local_comm_id = field(32, "local communication ID of the sender")
    _reserved0 = reserved(8)
    vendor_id = field(24, "vendor of enhanced connection establishment")
    service_id = field(64, "requested service")
    local_ca_guid = field(64, "NodeGUID of the sender")
    _reserved1 = reserved(32)
    local_qkey = field(32, "Q_Key (RD)")
    local_qpn = field(24, "QP of the sender")
    responder_resources = field(8, "outstanding RDMA reads and atomics that the sender serves")
    local_eecn = field(24, "EE context (RD)")
    initiator_depth = field(8, "outstanding RDMA reads and atomics that the sender will have")
    remote_eecn = field(24, "EE context (RD)")
    remote_cm_response_timeout = field(5, "response time limit of the receiver: 4.096 us * 2^n")
    transport_service_type = field(2, "0 RC, 1 UC, 2 RD, 3 see extended_transport_type")
    end_to_end_flow_control = field(1, "the sender's receive queue gives credits")
    starting_psn = field(24, "first PSN of the sender")
    local_cm_response_timeout = field(5, "response time of the sender")
    retry_count = field(3, "retries of the receiver's QP")
    pkey = field(16, "partition of the connection")
    path_mtu = field(4, "MTU code")
    rdc_exists = field(1, "an RD channel exists")
    rnr_retry_count = field(3, "retries of the receiver's QP after RNR NAK")
    max_cm_retries = field(4, "retries of the sender")
    srq = field(1, "the sender's QP has an SRQ")
    extended_transport_type = field(3, "1 XRC")
    primary_local_lid = field(16, "LID of the sender")
    primary_remote_lid = field(16, "LID of the receiver")
    primary_local_gid = array(16, 8, "GID of the sender")
    primary_remote_gid = array(16, 8, "GID of the receiver")
    primary_flow_label = field(20, "flow label")
    _reserved2 = reserved(6)
    primary_packet_rate = field(6, "rate code")
    primary_traffic_class = field(8, "traffic class")
    primary_hop_limit = field(8, "hop limit")
    primary_sl = field(4, "service level")
    primary_subnet_local = field(1, "1: within one subnet")
    _reserved3 = reserved(3)
    primary_local_ack_timeout = field(5, "ACK timeout of the receiver's QP")
    _reserved4 = reserved(3)
    alternate = array(44, 8, "the alternate path in the primary's layout; zeros: none")
    private_data = array(92, 8, "for the consumer")


class MRA(Structure, size=232, attr=0x11, section="12.6.6"):
    """Message receipt acknowledgement: the sender needs more time to answer."""

    local_comm_id = field(32, "the sender's name")
    remote_comm_id = field(32, "the receiver's name")
    message = field(2, "the received message: 0 REQ, 1 REP, 2 LAP")
    _reserved0 = reserved(6)
    service_timeout = field(5, "response time of the sender")
    _reserved1 = reserved(3)
    private_data = array(222, 8, "for the consumer")


class REJ(Structure, size=232, attr=0x12, section="12.6.7"):
    """Rejection of a message."""

    local_comm_id = field(32, "communication ID of the sender; 0: none")
    remote_comm_id = field(32, "the receiver's name")
    message = field(2, "the rejected message: 0 REQ, 1 REP, 2 none (timeout)")
    _reserved0 = reserved(6)
    info_length = field(7, "octets of ARI")
    _reserved1 = reserved(1)
    reason = field(16, "RejectReason")
    ari = array(72, 8, "additional reject information")
    private_data = array(148, 8, "for the consumer")


class REP(Structure, size=232, attr=0x13, section="12.6.8"):
    """Reply to a request for communication."""

    local_comm_id = field(32, "the sender's name")
    remote_comm_id = field(32, "the receiver's name")
    local_qkey = field(32, "Q_Key (RD)")
    local_qpn = field(24, "QP of the sender")
    vendor_id_h = field(8, "vendor of enhanced connection establishment, high byte")
    local_eecn = field(24, "EE context (RD)")
    vendor_id_m = field(8, "middle octet")
    starting_psn = field(24, "first PSN of the sender")
    vendor_id_l = field(8, "low octet")
    responder_resources = field(8, "outstanding RDMA reads and atomics that the sender serves")
    initiator_depth = field(8, "outstanding RDMA reads and atomics that the sender will have")
    target_ack_delay = field(5, "acknowledge delay of the sender's adapter")
    failover_accepted = field(2, "alternate path accepted")
    end_to_end_flow_control = field(1, "the sender's receive queue gives credits")
    rnr_retry_count = field(3, "retries of the receiver's QP after RNR NAK")
    srq = field(1, "the sender's QP has an SRQ")
    _reserved0 = reserved(4)
    local_ca_guid = field(64, "NodeGUID of the sender")
    private_data = array(196, 8, "for the consumer")


class RTU(Structure, size=232, attr=0x14, section="12.6.9"):
    """Ready to use: confirms the REP."""

    local_comm_id = field(32, "the sender's name")
    remote_comm_id = field(32, "the receiver's name")
    private_data = array(224, 8, "for the consumer")


class DREQ(Structure, size=232, attr=0x15, section="12.6.10"):
    """Request for communication release."""

    local_comm_id = field(32, "the sender's name")
    remote_comm_id = field(32, "the receiver's name")
    remote_qpn = field(24, "QP of the receiver")
    _reserved0 = reserved(8)
    private_data = array(220, 8, "for the consumer")


class DREP(Structure, size=232, attr=0x16, section="12.6.11"):
    """Reply to a request for communication release."""

    local_comm_id = field(32, "the sender's name")
    remote_comm_id = field(32, "the receiver's name")
    private_data = array(224, 8, "for the consumer")


class SIDR_REQ(Structure, size=232, attr=0x17, section="12.11.1"):
    """Service ID resolution request: asks for the QP that serves a service ID."""

    request_id = field(32, "request ID of the sender")
    pkey = field(16, "partition")
    _reserved0 = reserved(16)
    service_id = field(64, "requested service")
    private_data = array(216, 8, "for the consumer")


class SIDR_REP(Structure, size=232, attr=0x18, section="12.11.2"):
    """Service ID resolution reply."""

    request_id = field(32, "request ID of the receiver")
    status = field(8, "SidrStatus")
    info_length = field(8, "bytes of additional information")
    vendor_id_h = field(16, "vendor of enhanced connection establishment, high bytes")
    qpn = field(24, "QP of the service")
    vendor_id_l = field(8, "low octet")
    service_id = field(64, "as asked")
    qkey = field(32, "Q_Key of the QP")
    ari = array(72, 8, "additional information")
    private_data = array(136, 8, "for the consumer")


class CmaHeader(Structure, size=36, section="A11.3"):
    """First bytes of the private data of REQ and SIDR_REQ: the IP addresses of the connection
    (annex A11)."""

    version = field(8, "0")
    ip_version = field(4, "4 or 6")
    _reserved0 = reserved(4)
    port = field(16, "source port")
    source = array(16, 8, "source address; IPv4 in the last 4 bytes")
    target = array(16, 8, "destination address")


MESSAGES: dict[int, type[Structure]] = {
    m.attr: m for m in (REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP) if m.attr is not None
}
"""Structure of each message by attribute ID."""
