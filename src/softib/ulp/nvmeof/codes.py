"""Numbers of NVMe (base specification 1.4) and NVMe over Fabrics 1.1."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "DISCOVERY_NQN",
    "PORT",
    "Admin",
    "AnaState",
    "Cns",
    "ConnectReject",
    "Fabrics",
    "Feature",
    "Io",
    "LogPage",
    "Property",
    "Status",
    "status_text",
]

PORT = 4420
"""The TCP port number that IANA assigned to NVMe over RDMA."""
DISCOVERY_NQN = "nqn.2014-08.org.nvmexpress.discovery"


class Admin(IntEnum):
    """Opcodes of the admin queue (NVMe 1.4, figure 139); FABRICS is valid on every queue."""

    GET_LOG_PAGE = 0x02
    IDENTIFY = 0x06
    ABORT = 0x08
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT = 0x0C
    KEEP_ALIVE = 0x18
    FABRICS = 0x7F


class Fabrics(IntEnum):
    """Types of fabrics commands (NVMe-oF 1.1, figure 16)."""

    PROPERTY_SET = 0x00
    CONNECT = 0x01
    PROPERTY_GET = 0x04
    DISCONNECT = 0x08


class Io(IntEnum):
    """Opcodes of the NVM command set (NVMe 1.4, figure 346)."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    COMPARE = 0x05
    WRITE_ZEROES = 0x08


class Property(IntEnum):
    """Offsets of controller properties (NVMe-oF 1.1, figure 26)."""

    CAP = 0x00
    VS = 0x08
    CC = 0x14
    CSTS = 0x1C


class Cns(IntEnum):
    """Selectors of Identify pages (NVMe 1.4, figure 244)."""

    NAMESPACE = 0x00
    CONTROLLER = 0x01
    ACTIVE_NAMESPACES = 0x02
    DESCRIPTORS = 0x03


class LogPage(IntEnum):
    """Log pages (NVMe 1.4, figure 191)."""

    ERROR = 0x01
    SMART = 0x02
    FIRMWARE = 0x03
    CHANGED_NAMESPACES = 0x04
    EFFECTS = 0x05
    ANA = 0x0C
    DISCOVERY = 0x70


class Feature(IntEnum):
    """Features (NVMe 1.4, figure 271)."""

    WRITE_CACHE = 0x06
    NUMBER_OF_QUEUES = 0x07
    ASYNC_EVENTS = 0x0B
    KEEP_ALIVE = 0x0F
    HOST_ID = 0x81


class AnaState(IntEnum):
    """Asymmetric namespace access states (NVMe 1.4, 8.20.3)."""

    OPTIMIZED = 0x1
    NON_OPTIMIZED = 0x2
    INACCESSIBLE = 0x3
    PERSISTENT_LOSS = 0x4
    CHANGE = 0xF


class Status(IntEnum):
    """Status values: status code type × 256 + status code (NVMe 1.4, figures 126 to 130; NVMe-oF 1.1, figure 17)."""

    SUCCESS = 0x000
    INVALID_OPCODE = 0x001
    INVALID_FIELD = 0x002
    DATA_TRANSFER_ERROR = 0x004
    INTERNAL_ERROR = 0x006
    ABORTED = 0x007
    INVALID_NAMESPACE = 0x00B
    COMMAND_SEQUENCE_ERROR = 0x00C
    SGL_LENGTH_INVALID = 0x00F
    SGL_TYPE_INVALID = 0x011
    SGL_OFFSET_INVALID = 0x016
    KEEP_ALIVE_EXPIRED = 0x018
    WRITE_PROTECTED = 0x020
    LBA_OUT_OF_RANGE = 0x080
    CAPACITY_EXCEEDED = 0x081
    NAMESPACE_NOT_READY = 0x082
    ASYNC_EVENT_LIMIT = 0x105
    INVALID_LOG_PAGE = 0x109
    FEATURE_NOT_CHANGEABLE = 0x10E
    CONNECT_INCOMPATIBLE_FORMAT = 0x180
    CONNECT_CONTROLLER_BUSY = 0x181
    CONNECT_INVALID_PARAMETERS = 0x182
    CONNECT_RESTART_DISCOVERY = 0x183
    CONNECT_INVALID_HOST = 0x184
    WRITE_FAULT = 0x280
    UNRECOVERED_READ_ERROR = 0x281
    COMPARE_FAILURE = 0x285
    ANA_PERSISTENT_LOSS = 0x301
    ANA_INACCESSIBLE = 0x302
    ANA_TRANSITION = 0x303
    PATHING_ERROR = 0x370


_ACRONYMS = {"Lba": "LBA", "Sgl": "SGL", "Ana": "asymmetric access"}


def status_text(status: int) -> str:
    """Return the name of a status, with its number."""
    code = status & 0x7FF
    try:
        parts = Status(code).name.split("_")
    except ValueError:
        return f"status {code:#05x}"
    text = " ".join(_ACRONYMS.get(word.capitalize(), word.lower()) for word in parts)
    return f"{text} (status {code:#05x})"


class ConnectReject(IntEnum):
    """Reasons to refuse a connection (NVMe-oF 1.1, 7.3.6.4)."""

    INVALID_LENGTH = 1
    INVALID_FORMAT = 2
    INVALID_QUEUE_ID = 3
    INVALID_HSQSIZE = 4
    INVALID_HRQSIZE = 5
    NO_RESOURCES = 6
    INVALID_IRD = 7
    INVALID_ORD = 8
    INVALID_CONTROLLER_ID = 9
