"""Paths of connections: what a connection keeps of the SA's records."""

from __future__ import annotations

from dataclasses import dataclass

from softib.iba.cm import CmaHeader
from softib.iba.mad_codec import codec
from softib.iba.sa import PathRecord, Selector

__all__ = ["CA_ACK_DELAY", "Path", "ack_timeout", "cma_header"]

CA_ACK_DELAY = 15
"""Local CA Ack Delay of our adapters: 4.096 us * 2^15 = 0.13 s; ConnectX say 15 or 16."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path from a port (``sgid``, ``slid``) to another. ``mtu``, ``rate`` and ``life_time`` are
    codes of the SA."""

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
    """As PathRecord."""

    @classmethod
    def of(cls, record: bytes) -> Path:
        """From PathRecord's octets."""
        r = codec(PathRecord).unpack(record)
        return cls(
            r["sgid"],
            r["dgid"],
            r["slid"],
            r["dlid"],
            r["pkey"],
            r["sl"],
            r["mtu"],
            r["rate"],
            r["packet_life_time"],
            r["hop_limit"],
            r["tclass"],
            r["flow_label"],
            record[: PathRecord.size],
        )

    @classmethod
    def back(cls, req: dict) -> Path:
        """To the sender of this REQ: its primary path, seen from the receiver."""
        life_time = req["primary_local_ack_timeout"]
        return cls.made(
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
        """To a multicast group, from a MCMemberRecord's fields."""
        return cls.made(
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
    def made(cls, **fields: int | bytes) -> Path:
        """From its fields."""
        exactly = dict.fromkeys(("mtu_selector", "rate_selector", "packet_life_time_selector"), Selector.EXACTLY)
        named = {"packet_life_time" if n == "life_time" else n: v for n, v in fields.items()}
        octets = codec(PathRecord).pack(reversible=1, numb_path=1, **exactly, **named)
        return cls(**fields, octets=octets)  # type: ignore[arg-type]


def ack_timeout(life_time: int) -> int:
    """Local ACK Timeout for a path: there and back, and the adapter's delay, as an exponent (IBA
    12.7.34)."""
    both = life_time + 1
    if both >= CA_ACK_DELAY:
        both += both - 1 <= CA_ACK_DELAY
    else:
        both = CA_ACK_DELAY + (both >= CA_ACK_DELAY - 1)
    return min(both, 31)


def cma_header(source: bytes, target: bytes, port: int) -> bytes:
    """The CMA's 36 octets for two IPv4 addresses (annex A11)."""
    return codec(CmaHeader).pack(ip_version=4, port=port, source=bytes(12) + source, target=bytes(12) + target)
