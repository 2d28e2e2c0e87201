"""Attributes of the queue pairs of a run, by their names in ibv_modify_qp(3)."""

from __future__ import annotations

from collections.abc import Mapping

from softib.errors import InputError, UnknownName

__all__ = ["ATTRIBUTES", "packet_options"]

ATTRIBUTES = {
    "timeout": ("ack_timeout", 1, 31, "the ACK timeout is 4.096 us * 2^n"),
    "retry_cnt": ("retries", 0, 7, "Retry Count has 3 bits"),
    "min_rnr_timer": ("rnr_timer", 0, 31, "the code of the RNR NAK timer has 5 bits (IBA table 45)"),
    "rnr_retry": ("rnr_retries", 0, 7, "RNR Retry Count has 3 bits, and 7 is no limit"),
}
"""Member of ``ibv_qp_attr`` → field of :class:`~softib.sim.packet.PacketOptions`, least and
greatest value, meaning."""


def packet_options(given: Mapping[str, int], layer: str, network: str = "infiniband") -> dict[str, int]:
    """Return ``given`` (``{"timeout": 18}``) as options of the packet layer. Raises
    :class:`UnknownName` for another attribute, :class:`InputError` for an impossible value, and
    where ``layer`` or ``network`` has no such queue pairs."""
    found = {}
    for name, value in given.items():
        if name not in ATTRIBUTES:
            raise UnknownName("attribute of queue pairs", name, ATTRIBUTES)
        option, least, most, what = ATTRIBUTES[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(f"{name} {value} is not possible; {what}: a number from {least} to {most}")
        if layer != "packet":
            raise InputError(f"{name} {value}: only packets time out; add --layer packet")
        if network.partition(",")[0] == "tcp":
            raise InputError(f"{name} {value}: tcp has no queue pairs; leave it out")
        found[option] = value
    return found
