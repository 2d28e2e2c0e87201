"""Paths of connections: PathRecord and MCMemberRecord as the SA sends them, and what a connection keeps of them."""

from __future__ import annotations

from dataclasses import dataclass

from softib.iba.cm import CmaHeader
from softib.iba.structure import Structure, array, field, reserved
from softib.live.cm_mads import codec

__all__ = ["CA_ACK_DELAY", "MCMemberRecord", "Path", "PathRecord", "ack_timeout", "cma_header"]

CA_ACK_DELAY = 15
"""Local CA Ack Delay of our adapters: 4.096 us * 2^15 = 0.13 s; ConnectX say 15 or 16."""
EXACTLY = 2
"""Selector of MTU, rate and life time (IBA 15.2.5.16)."""


class PathRecord(Structure, size=64, attr=0x35, section="15.2.5.16"):
    """A path between two ports."""

    service_id = field(64, "service, for QoS")
    dgid = array(16, 8, "destination")
    sgid = array(16, 8, "source")
    dlid = field(16, "destination")
    slid = field(16, "source")
    raw_traffic = field(1, "raw packets")
    _reserved0 = reserved(3)
    flow_label = field(20, "of the GRH")
    hop_limit = field(8, "of the GRH")
    traffic_class = field(8, "of the GRH")
    reversible = field(1, "the way back is the same path")
    numb_path = field(7, "in questions: how many")
    pkey = field(16, "partition")
    qos_class = field(12, "QoS class")
    sl = field(4, "service level")
    mtu_selector = field(2, "0 greater, 1 less, 2 exactly, 3 largest")
    mtu = field(6, "MTU code")
    rate_selector = field(2, "as for the MTU")
    rate = field(6, "rate code")
    life_time_selector = field(2, "as for the MTU")
    life_time = field(6, "4.096 us * 2^n")
    preference = field(8, "lower is better")


class MCMemberRecord(Structure, size=52, attr=0x38, section="15.2.5.17"):
    """Membership of a port in a multicast group."""

    mgid = array(16, 8, "the group")
    port_gid = array(16, 8, "the port")
    qkey = field(32, "Q_Key of the group")
    mlid = field(16, "multicast LID")
    mtu_selector = field(2, "0 greater, 1 less, 2 exactly, 3 largest")
    mtu = field(6, "MTU code")
    traffic_class = field(8, "of the GRH")
    pkey = field(16, "partition")
    rate_selector = field(2, "as for the MTU")
    rate = field(6, "rate code")
    life_time_selector = field(2, "as for the MTU")
    life_time = field(6, "4.096 us * 2^n")
    sl = field(4, "service level")
    flow_label = field(20, "of the GRH")
    hop_limit = field(8, "of the GRH")
    scope = field(4, "2 link-local, 5 site-local, 8 organisation, 14 global")
    join_state = field(4, "bits: 1 full, 2 non-, 4 send-only non-, 8 send-only full member")
    proxy_join = field(1, "joined by somebody else")
    _reserved0 = reserved(23)


@dataclass(frozen=True, slots=True)
class Path:
    """One way from a port (``sgid``, ``slid``) to another. ``mtu``, ``rate`` and ``life_time`` are codes of the SA."""

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
    traffic_class: int = 0
    flow_label: int = 0
    octets: bytes = b""
    """As PathRecord."""

    @classmethod
    def of(cls, record: bytes) -> Path:
        """From PathRecord's octets."""
        r = codec(PathRecord).unpack(record)
        return cls(r["sgid"], r["dgid"], r["slid"], r["dlid"], r["pkey"], r["sl"], r["mtu"], r["rate"], r["life_time"],
                   r["hop_limit"], r["traffic_class"], r["flow_label"], record[: PathRecord.size])  # fmt: skip

    @classmethod
    def back(cls, req: dict) -> Path:
        """The way back to who sent this REQ: its primary path from the other end."""
        life_time = req["primary_local_ack_timeout"]
        return cls.made(
            sgid=req["primary_remote_gid"], dgid=req["primary_local_gid"], slid=req["primary_remote_lid"],
            dlid=req["primary_local_lid"], pkey=req["pkey"], sl=req["primary_sl"], mtu=req["path_mtu"],
            rate=req["primary_packet_rate"], life_time=life_time - (life_time > 0),
            hop_limit=req["primary_hop_limit"], traffic_class=req["primary_traffic_class"],
            flow_label=req["primary_flow_label"],
        )  # fmt: skip

    @classmethod
    def of_group(cls, m: dict, slid: int) -> Path:
        """To a multicast group, from a MCMemberRecord's fields."""
        return cls.made(
            sgid=m["port_gid"], dgid=m["mgid"], slid=slid, dlid=m["mlid"], pkey=m["pkey"], sl=m["sl"], mtu=m["mtu"],
            rate=m["rate"], life_time=m["life_time"], hop_limit=m["hop_limit"], traffic_class=m["traffic_class"],
            flow_label=m["flow_label"],
        )  # fmt: skip

    @classmethod
    def made(cls, **fields: int | bytes) -> Path:
        """From its fields."""
        octets = codec(PathRecord).pack(
            reversible=1, numb_path=1, mtu_selector=EXACTLY, rate_selector=EXACTLY, life_time_selector=EXACTLY, **fields
        )
        return cls(**fields, octets=octets)  # type: ignore[arg-type]


def ack_timeout(life_time: int) -> int:
    """Local ACK Timeout for a path: there and back, and the adapter's delay, as an exponent (IBA 12.7.34)."""
    both = life_time + 1
    if both >= CA_ACK_DELAY:
        both += CA_ACK_DELAY >= both - 1
    else:
        both = CA_ACK_DELAY + (both >= CA_ACK_DELAY - 1)
    return min(both, 31)


def cma_header(source: bytes, target: bytes, port: int) -> bytes:
    """The CMA's 36 octets for two IPv4 addresses (annex A11)."""
    return codec(CmaHeader).pack(ip_version=4, port=port, source=bytes(12) + source, target=bytes(12) + target)
