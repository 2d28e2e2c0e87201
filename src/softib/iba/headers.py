"""Headers of InfiniBand packets (IBA 7.7, 8.3, 9.2, 9.3), declared once."""

from __future__ import annotations

from enum import IntEnum

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "AETH",
    "BTH",
    "DETH",
    "GRH",
    "LNH",
    "LRH",
    "RETH",
    "AtomicAckETH",
    "AtomicETH",
    "ImmDt",
    "Operation",
    "Service",
    "Syndrome",
]


class LNH(IntEnum):
    """LRH.LNH: the next header (IBA 7.7.5)."""

    RAW = 0
    IPV6 = 1
    BTH = 2
    GRH = 3


class Service(IntEnum):
    """Upper three bits of BTH.opcode: the transport service (IBA 9.2.1)."""

    RC = 0x00
    UC = 0x20
    UD = 0x60


class Operation(IntEnum):
    """Lower five bits of BTH.opcode (IBA 9.2.1)."""

    SEND_FIRST, SEND_MIDDLE, SEND_LAST = 0, 1, 2
    SEND_ONLY = 4
    WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST = 6, 7, 8
    WRITE_LAST_WITH_IMM = 9
    WRITE_ONLY = 10
    WRITE_ONLY_WITH_IMM = 11
    READ_REQUEST = 12
    READ_RESPONSE_FIRST, READ_RESPONSE_MIDDLE, READ_RESPONSE_LAST, READ_RESPONSE_ONLY = 13, 14, 15, 16
    ACKNOWLEDGE = 17
    ATOMIC_ACKNOWLEDGE = 18
    CMP_SWAP = 19
    FETCH_ADD = 20


class Syndrome(IntEnum):
    """Values of AETH.syndrome (IBA 9.7.5.2): ACK without an end-to-end credit count; RNR NAK, whose
    lower five bits are the timer code; NAK for a PSN sequence error."""

    ACK = 0x1F
    RNR_NAK = 0x20
    NAK_PSN = 0x60


class LRH(Structure, size=8, section="7.7"):
    """Local route header."""

    vl = field(4, "virtual lane; 15 = management")
    lver = field(4, "0")
    sl = field(4, "service level")
    _reserved0 = reserved(2)
    lnh = field(2, "LNH: 2 = BTH follows, 3 = GRH follows")
    dlid = field(16, "destination LID")
    _reserved1 = reserved(5)
    pkt_len = field(11, "4-byte words from LRH to ICRC")
    slid = field(16, "source LID")


class GRH(Structure, size=40, section="8.3"):
    """Global route header."""

    ip_ver = field(4, "6")
    tclass = field(8, "traffic class")
    flow_label = field(20, "flow label")
    pay_len = field(16, "bytes from the end of the GRH to the ICRC")
    next_header = field(8, "0x1b = IBA transport")
    hop_limit = field(8, "routers that it may pass")
    sgid = array(2, 64, "source GID: prefix, GUID")
    dgid = array(2, 64, "destination GID: prefix, GUID")


class BTH(Structure, size=12, section="9.2"):
    """Base transport header."""

    opcode = field(8, "transport service and operation; 0x64 = UD SEND only")
    se = field(1, "solicited event")
    mig_req = field(1, "path migration state")
    pad_count = field(2, "bytes that pad the payload to words")
    tver = field(4, "0")
    pkey = field(16, "P_Key")
    fecn = field(1, "forward congestion notification")
    becn = field(1, "backward congestion notification")
    _reserved0 = reserved(6)
    dest_qp = field(24, "destination QP")
    ack_req = field(1, "an acknowledgement is requested")
    _reserved1 = reserved(7)
    psn = field(24, "packet sequence number")


class DETH(Structure, size=8, section="9.3.1"):
    """Datagram extended transport header."""

    qkey = field(32, "Q_Key; 0x80010000 = QP1")
    _reserved0 = reserved(8)
    src_qp = field(24, "source QP")


class RETH(Structure, size=16, section="9.3.3"):
    """RDMA extended transport header."""

    va = field(64, "remote address")
    rkey = field(32, "R_Key")
    dma_len = field(32, "octets")


class AETH(Structure, size=4, section="9.3.5"):
    """ACK extended transport header."""

    syndrome = field(8, "ACK with credits, RNR NAK with timer, or NAK with code")
    msn = field(24, "message sequence number")


class ImmDt(Structure, size=4, section="9.3.6"):
    """Immediate data extended transport header."""

    imm_data = field(32, "as given by the sender")


class AtomicETH(Structure, size=28, section="9.3.4"):
    """Atomic extended transport header."""

    va = field(64, "remote address")
    rkey = field(32, "R_Key")
    swap_data = field(64, "the operand: added, or written if the comparison holds")
    cmp_data = field(64, "what is compared")


class AtomicAckETH(Structure, size=8, section="9.5.3"):
    """Atomic acknowledgement extended transport header."""

    orig_rem_data = field(64, "the value before the operation")
