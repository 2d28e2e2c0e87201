"""Port spaces of rdma_cm in service IDs, and the Q_Key that each stands for (IBA annex A11; Linux
cma.c)."""

from __future__ import annotations

__all__ = ["IPOIB_QKEY", "PS", "UDP_QKEY", "qkey_of"]


class PS:
    """Port spaces (``enum rdma_ucm_port_space``): bits 16 to 31 of a service ID (IBA annex A11)."""

    IPOIB, IB, TCP, UDP = 0x0002, 0x013F, 0x0106, 0x0111


UDP_QKEY = 0x01234567
"""RDMA_UDP_QKEY: of groups and QPs in rdma_cm's port spaces, but for IPoIB's."""
IPOIB_QKEY = 0x0B1B
"""Of IPoIB's groups (RFC 4391)."""


def qkey_of(ps: int) -> int:
    """The Q_Key of who names none (Linux cma.c, cma_set_default_qkey)."""
    return IPOIB_QKEY if ps == PS.IPOIB else UDP_QKEY
