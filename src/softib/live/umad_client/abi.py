"""The ABI of the kernel's user_mad devices, version 5 (Documentation/infiniband/user_mad.rst,
``rdma/ib_user_mad.h``), and the management classes, versions and unsolicited methods that softib
registers for."""

from __future__ import annotations

import struct

import numpy as np

from softib.iba.constants import Method, MgmtClass
from softib.iba.sa import SaMethod

__all__ = [
    "ABI_VERSION",
    "ASKS",
    "CLASS_VERSION",
    "ENABLE_PKEY",
    "GSI_QKEY",
    "HEAD",
    "HEAD_SIZE",
    "MANAGES",
    "OLD_HEAD_SIZE",
    "REGISTER_AGENT",
    "registered_id",
    "registration",
]


def _mask(*methods: int) -> int:
    return sum(1 << int(m) for m in methods)


ASKS: dict[int, int] = {int(MgmtClass.SUBN_DR): 0, int(MgmtClass.SUBN_LID): 0}
"""The management classes that a program registers if it only sends requests, each with the mask of unsolicited methods
(none)."""
MANAGES: dict[int, int] = {
    int(MgmtClass.SUBN_DR): _mask(Method.GET, Method.SET, Method.TRAP),
    int(MgmtClass.SUBN_LID): _mask(Method.GET, Method.SET, Method.TRAP),
    int(MgmtClass.SUBN_ADM): _mask(
        SaMethod.GET, SaMethod.SET, SaMethod.GET_TABLE, SaMethod.GET_TRACE_TABLE, SaMethod.GET_MULTI, SaMethod.DELETE
    ),
    int(MgmtClass.CONG_CTRL): 0,
    int(MgmtClass.SHARP): 0,
    int(MgmtClass.SM_REPLICA): _mask(Method.GET, Method.SET),
}
"""Like :data:`ASKS`, for a subnet manager and administrator: the classes that OpenSM registers, and that of softib's
replication."""
CLASS_VERSION = {int(MgmtClass.SUBN_ADM): 2, int(MgmtClass.CONG_CTRL): 2}


ABI_VERSION = 5
"""The only version that libibumad supports (since 2005)."""
REGISTER_AGENT = 0xC01C1B01
"""``_IOWR(RDMA_IOCTL_MAGIC, 1, struct ib_user_mad_reg_req)``"""
ENABLE_PKEY = 0x1B03
"""``_IO(RDMA_IOCTL_MAGIC, 3)``: after this call the header contains the P_Key index."""
HEAD = np.dtype(
    [
        ("id", "=u4"),
        ("status", "=u4"),
        ("timeout_ms", "=u4"),
        ("retries", "=u4"),
        ("length", "=u4"),
        ("qpn", ">u4"),
        ("qkey", ">u4"),
        ("lid", ">u2"),
        ("sl", "u1"),
        ("path_bits", "u1"),
        ("grh_present", "u1"),
        ("gid_index", "u1"),
        ("hop_limit", "u1"),
        ("traffic_class", "u1"),
        ("gid", "u1", 16),
        ("flow_label", ">u4"),
        ("pkey_index", "=u2"),
        ("reserved", "u1", 6),
    ]
)
"""``struct ib_user_mad_hdr``; ``length`` counts the header and the MAD."""
HEAD_SIZE, OLD_HEAD_SIZE = HEAD.itemsize, 56
"""Bytes before the MAD, with and without :data:`ENABLE_PKEY`."""
GSI_QKEY = 0x80010000
"""Q_Key of QP1 (IBA 10.2.5)."""
_REGISTRATION = struct.Struct("=I16s8B")


def registration(mgmt_class: int, version: int, methods: int, rmpp_version: int) -> bytearray:
    """Return ``struct ib_user_mad_reg_req``: ``methods`` is the mask of unsolicited methods that
    the agent takes (bit n: method n)."""
    qpn = 0 if mgmt_class in (0x01, 0x81) else 1
    mask = methods.to_bytes(16, "little") if np.little_endian else _longs(methods)
    return bytearray(_REGISTRATION.pack(0, mask, qpn, mgmt_class, version, 0, 0, 0, rmpp_version, 0))


def registered_id(request: bytes) -> int:
    """Return the number of the agent, which the ioctl wrote into its request."""
    return int(_REGISTRATION.unpack(request)[0])


def _longs(methods: int) -> bytes:
    """Return a bitmap as native longs, in the bit order of the kernel's set_bit."""
    return b"".join(((methods >> at) & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "big") for at in (0, 64))
