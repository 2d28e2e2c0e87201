"""The SA's database as text, in the format of OpenSM's ``opensm-sa.dump`` (its options
``sa_db_dump`` and ``sa_db_file``): multicast groups with their members, subscriptions, and
services. Each record is a line of ``name=value``. Unknown fields in a line are ignored.

    MC Group 0xc000 : mgid=0xff12401bffff0000:0x00000000ffffffff … qkey=0x00000b1b mlid=0xc000
    mtu=0x84 … mcm_port: port_gid=0xfe80000000000000:0x0002c90300001234 scope_state=0x21
    proxy_join=0x0
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from softib.errors import InputError
from softib.iba.constants import LID_MCAST_MAX, LID_MCAST_MIN
from softib.iba.sa import InformInfo, Selector, ServiceRecord
from softib.sm.managers.mcast_mgr import Group, Member
from softib.sm.sa.service_record import FOR_EVER, HEAD, NEVER_PS, PS_PER_S
from softib.sm.sa.subscriptions import Subscription
from softib.sm.sa_manager import SaManager, SaRecords

__all__ = ["dump", "read_dump"]

EXACTLY = int(Selector.EXACTLY) << 6
PAIR = re.compile(r"(\w+)=('(?:[^']*)'|\S+)")
R = ServiceRecord
ARRAYS = (("data8", 2), ("data16", 4), ("data32", 8), ("data64", 16))
"""Name, and the number of hexadecimal digits of an element. Half of the elements are before a colon."""


def dump(server: SaManager, now_ps: int) -> str:
    """Return the complete dump. Leases are stated as remaining time."""
    lines = [
        line
        for g in sorted(server.groups.groups.values(), key=lambda g: g.mlid)
        for line in _group(g, server.config.subnet_prefix)
    ]
    lines += [_subscription(s) for s in server.subscriptions.all]
    lines += [_service(*entry, now_ps) for entry in server.services.records.values()]
    return "".join(f"{line}\n\n" for line in lines)


def _gid(high: int, low: int) -> str:
    return f"0x{high:016x}:0x{low:016x}"


def _group(g: Group, prefix: int) -> Iterator[str]:
    flow = g.sl << 28 | g.flow_label << 8 | g.hop_limit
    high, low = (int.from_bytes(g.mgid[i : i + 8], "big") for i in (0, 8))
    yield (
        f"MC Group 0x{g.mlid:04x} {'(well known)' if g.kept else ''}: mgid={_gid(high, low)} port_gid={_gid(0, 0)} "
        f"qkey=0x{g.qkey:08x}"
        f" mlid=0x{g.mlid:04x} mtu=0x{EXACTLY | g.mtu:02x} tclass=0x{g.tclass:02x} pkey=0x{g.pkey:04x} "
        f"rate=0x{EXACTLY | g.rate:02x}"
        f" pkt_life=0x{EXACTLY | g.packet_life_time:02x} sl_flow_hop=0x{flow:08x} scope_state=0x{g.scope << 4:02x} "
        f"proxy_join=0x0"
    )
    for guid, m in sorted(g.members.items()):
        state = g.scope << 4 | m.join_state
        yield f"mcm_port: port_gid={_gid(prefix, guid)} scope_state=0x{state:02x} proxy_join=0x{int(m.proxy):x}"


def _subscription(s: Subscription) -> str:
    w = InformInfo.unpack(np.frombuffer(s.inform, np.uint8))
    return (
        f"InformInfo Record: subscriber_gid={_gid(*s.gid)} subscriber_enum=0x0 InformInfo: "
        f"gid={_gid(*map(int, w['gid']))}"
        f" lid_range_begin=0x{int(w['lid_range_begin']):x} lid_range_end=0x{int(w['lid_range_end']):x} "
        f"is_generic=0x{int(w['is_generic']):x}"
        f" subscribe=0x{int(w['subscribe']):x} trap_type=0x{int(w['type']):x} trap_num=0x{int(w['trap_number']):x}"
        f" qpn_resp_time_val=0x{int(w['qpn']) << 8 | int(w['resp_time_value']):x} "
        f"node_type=0x{int(w['producer_type']):06x}"
        f" rep_addr: lid=0x{s.lid:04x} path_bits=0x00 static_rate=0x00 remote_qp=0x{s.qp:08x} "
        f"remote_qkey=0x80010000 pkey_ix=0x0000 sl=0x00"
    )


def _service(record: np.ndarray, ends_ps: int, lid: int, now_ps: int) -> str:
    w = R.unpack(record)
    left = FOR_EVER if ends_ps == NEVER_PS else max(0, -(-(ends_ps - now_ps) // PS_PER_S))
    arrays = [_array(name, [int(x) for x in w[name]], digits) for name, digits in ARRAYS]
    key = _gid(*(int(x) for x in w["service_key"]))
    name = (
        record[R.service_name.byte : R.service_name.byte + 64]
        .tobytes()
        .split(b"\0")[0]
        .decode("utf-8", "replace")
        .replace("'", "?")
    )
    return (
        f"Service Record: id=0x{int(w['service_id']):016x} gid={_gid(*(int(x) for x in w['service_gid']))} "
        f"pkey=0x{int(w['service_pkey']):x}"
        f" lease=0x{left:x} key={key} name='{name}' {' '.join(arrays)} modified_time=0x0 lease_period=0x{left:x} "
        f"lid=0x{lid:04x}"
    )


def _array(name: str, values: list[int], digits: int) -> str:
    half = len(values) // 2
    text = lambda part: "0x" + "".join(f"{v:0{digits}x}" for v in part)
    return f"{name}={text(values[:half])}:{text(values[half:])}"


def read_dump(text: str, path: str, now_ps: int) -> SaRecords:
    """Read a dump that softib or OpenSM wrote. Raises :class:`InputError` with file and line for a
    record that cannot be read."""
    out = SaRecords()
    for number, line in enumerate(text.splitlines(), 1):
        head, fields = line.lstrip().split(":")[0], dict(PAIR.findall(line))
        try:
            if head.startswith("MC Group"):
                out.groups.append(_read_group(fields))
            elif head == "mcm_port":
                _, guid = _read_gid(fields["port_gid"])
                out.groups[-1].members[guid] = Member(
                    _number(fields, "scope_state", 255) & 15, bool(_number(fields, "proxy_join", 1))
                )
            elif head == "InformInfo Record":
                out.subscriptions.append(_read_subscription(line))
            elif head == "Service Record":
                _read_service(fields, out, now_ps)
        except (KeyError, ValueError, IndexError) as error:
            raise InputError(f"{path}:{number}: not a record of an SA database dump: {error}") from None
    return out


def _number(fields: dict[str, str], name: str, most: int) -> int:
    value = int(fields[name], 16)
    if not 0 <= value <= most:
        raise ValueError(f"{name} {fields[name]} is larger than {most:#x}")
    return value


def _read_gid(text: str) -> tuple[int, int]:
    high, low = (int(x, 16) for x in text.split(":"))
    if max(high, low) >= 1 << 64:
        raise ValueError(f"{text} is not a GID")
    return high, low


def _read_group(fields: dict[str, str]) -> Group:
    high, low = _read_gid(fields["mgid"])
    flow, mlid = _number(fields, "sl_flow_hop", (1 << 32) - 1), _number(fields, "mlid", LID_MCAST_MAX)
    if mlid < LID_MCAST_MIN:
        raise ValueError(f"mlid {mlid:#x} is not a multicast LID")
    return Group(
        high.to_bytes(8, "big") + low.to_bytes(8, "big"),
        mlid,
        qkey=_number(fields, "qkey", (1 << 32) - 1),
        mtu=_number(fields, "mtu", 255) & 63,
        rate=_number(fields, "rate", 255) & 63,
        packet_life_time=_number(fields, "pkt_life", 255) & 63,
        pkey=_number(fields, "pkey", 0xFFFF),
        sl=flow >> 28,
        tclass=_number(fields, "tclass", 255),
        flow_label=flow >> 8 & 0xFFFFF,
        hop_limit=flow & 255,
    )


def _read_subscription(line: str) -> Subscription:
    fields = dict(PAIR.findall(line))
    qpn = _number(fields, "qpn_resp_time_val", (1 << 32) - 1)
    inform = InformInfo.pack(
        gid=np.array(_read_gid(fields["gid"]), np.uint64),
        lid_range_begin=_number(fields, "lid_range_begin", 0xFFFF),
        lid_range_end=_number(fields, "lid_range_end", 0xFFFF),
        is_generic=_number(fields, "is_generic", 1),
        subscribe=1,
        type=_number(fields, "trap_type", 0xFFFF),
        trap_number=_number(fields, "trap_num", 0xFFFF),
        qpn=qpn >> 8,
        resp_time_value=qpn & 31,
        producer_type=_number(fields, "node_type", 0xFFFFFF),
    )
    return Subscription(
        _read_gid(fields["subscriber_gid"]),
        _number(fields, "lid", 0xBFFF),
        _number(fields, "remote_qp", 0xFFFFFF),
        inform.tobytes(),
    )


def _read_service(fields: dict[str, str], out: SaRecords, now_ps: int) -> None:
    lease = _number(fields, "lease", FOR_EVER)
    arrays = {name: np.array(_elements(fields[name], digits), np.uint64) for name, digits in ARRAYS}
    record = R.pack(
        service_id=_number(fields, "id", (1 << 64) - 1),
        service_gid=np.array(_read_gid(fields["gid"]), np.uint64),
        service_pkey=_number(fields, "pkey", 0xFFFF),
        service_lease=lease,
        service_key=np.array(_elements(fields["key"], 16), np.uint64),
        **arrays,
    )
    name = fields["name"].strip("'").encode()[:64]
    record[R.service_name.byte : R.service_name.byte + len(name)] = np.frombuffer(name, np.uint8)
    lid = _number(fields, "lid", 0xFFFF) if "lid" in fields else 0
    out.services[record[:HEAD].tobytes()] = record, NEVER_PS if lease == FOR_EVER else now_ps + lease * PS_PER_S, lid


def _elements(text: str, digits: int) -> list[int]:
    """Return elements of ``0x…:0x…``. OpenSM writes ``0x`` only before the first element of each
    half, and pads the elements."""
    plain = text.replace("0x", "").replace(":", "")
    if len(plain) % digits:
        raise ValueError(f"{text} is not a list of numbers with {digits} digits")
    return [int(plain[i : i + digits], 16) for i in range(0, len(plain), digits)]
