"""The service's partitions as OpenSM's partitions.conf, which every manager reads, and the reverse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from softib.errors import InputError
from softib.sm.managers.partitions import FULL, parse_partitions
from softib.sm.managers.partitions import Partition as SmPartition
from softib.tenants.model import DEFAULT_BASE, MTU_CODES, RATES, Member, Partition, Qos, parse_guid, parse_pkey

__all__ = ["conf_of", "from_conf", "from_ufm", "line_of", "to_conf"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_DEFAULT_RATE = Qos().rate
HEAD = "# Written by softib; changes made here are lost. Partitions are changed through its REST interface.\n"


def to_conf(partitions: Iterable[Partition], whole: bool = True) -> str:
    """Return the file, the default partition first; a ``whole`` one without empty partitions, which
    have no effect."""
    return conf_of({p.pkey: line_of(p) for p in partitions if p.members or p.everyone or not whole})


def conf_of(lines: Mapping[int, str]) -> str:
    """Return the file of the lines of partitions by P_Key, the default partition first."""
    ordered = sorted(lines.keys() - {DEFAULT_BASE})
    return "".join([HEAD, lines.get(DEFAULT_BASE, ""), *(lines[pkey] for pkey in ordered)])


def line_of(partition: Partition) -> str:
    """Return a partition as a definition of the file."""
    p, (mtu, rate, sl) = partition, partition.qos.codes
    # A name is a client's text: characters outside a word could end the definition.
    name = "Default" if p.pkey == DEFAULT_BASE else p.name if _NAME.fullmatch(p.name) else f"pkey_{p.pkey:#x}"
    if name.lower() == "default" and p.pkey != DEFAULT_BASE:
        name = f"pkey_{p.pkey:#x}"
    flags = [f"{name}={p.pkey:#x}"]
    flags += ["indx0"] if p.index0 else []
    flags += ["ipoib"] if p.ip_over_ib else []
    flags += [f"mtu={mtu}", f"sl={sl}"]
    # UFM's 2.5 Gb/s means that no rate is set; OpenSM's own default is 10 Gb/s.
    flags += [f"rate={rate}"] if p.qos.rate != _DEFAULT_RATE else []
    members = [f"ALL={p.everyone}", "SELF=full"] if p.everyone else []
    members += [f"{guid:#018x}={'full' if m.full else 'limited'}" for guid, m in sorted(p.members.items())]
    return f"{', '.join(flags)} : {', '.join(members)} ;\n"


def from_conf(text: str, name: str) -> tuple[list[Partition], list[str]]:
    """Return the partitions of a file, and a line for each part that the service does not support.
    Raises :class:`InputError` with file and line if it cannot be read."""
    notes: list[str] = []
    return [_partition(p, name, notes) for p in parse_partitions(text, name)], notes


def _partition(p: SmPartition, file: str, notes: list[str]) -> Partition:
    members: dict[int, Member] = {}
    everyone = ""
    for who, bits in p.members:
        full = bool(bits & FULL)
        if isinstance(who, int):
            members[who] = Member(full)
        elif who in ("ALL", "ALL_CAS") and p.pkey == DEFAULT_BASE:
            everyone = "full" if full else "limited"
        elif who != "SELF":
            notes.append(f"{file}: {p.name or hex(p.pkey)}: {who} is omitted; use GUIDs")
    group = p.groups[0] if p.groups else None
    if any(g.mgid for g in p.groups):
        notes.append(f"{file}: {p.name or hex(p.pkey)}: its multicast groups are omitted")
    mtu = {code: mtu for mtu, code in MTU_CODES.items()}.get(group.mtu if group else 4)
    rate = {code: rate for rate, code in RATES.items()}.get(group.rate if group else 2)
    if mtu is None or rate is None:
        notes.append(f"{file}: {p.name or hex(p.pkey)}: its MTU or rate is not one of UFM's; the default is used")
    qos = Qos(mtu or Qos().mtu, p.sl, rate or _DEFAULT_RATE)
    title = "management" if p.pkey == DEFAULT_BASE else p.name or f"api_pkey_{p.pkey:#x}"
    return Partition(p.pkey, title, "", p.index0, p.ipoib, everyone, qos, members)


def from_ufm(document: object) -> tuple[list[Partition], list[str]]:
    """Return the partitions of UFM's answer to ``GET resources/pkeys?guids_data=true``. Raises
    :class:`InputError` for other input."""
    if not isinstance(document, dict):
        raise InputError("content: must be UFM's answer to GET resources/pkeys?guids_data=true, a mapping by P_Key")
    out = list[Partition]()
    for text, given in document.items():
        pkey = parse_pkey(text)
        if isinstance(given, dict) and "guids" not in given:
            raise InputError(f"content: {text[:24]} has no guids; use guids_data=true in the request to UFM")
        listed = given.get("guids") if isinstance(given, dict) else None
        if not isinstance(listed, list) or not all(isinstance(g, dict) for g in listed):
            raise InputError(f"content: {text[:24]}: guids must be a list of mappings")
        members = {parse_guid(g.get("guid")): Member(g.get("membership", "full") == "full") for g in listed}
        qos = given.get("qos_conf") or {}
        try:
            q = Qos(int(qos.get("mtu_limit", 2)), int(qos.get("service_level", 0)), float(qos.get("rate_limit", 2.5)))
        except (AttributeError, TypeError, ValueError):
            raise InputError(
                f"content: {text[:24]}: qos_conf must be mtu_limit, service_level and rate_limit"
            ) from None
        everyone = str(given.get("membership") or "full") if pkey == DEFAULT_BASE else ""
        name = str(given.get("partition") or f"api_pkey_{pkey:#x}")[:128]
        index0 = any(g.get("index0") is True for g in listed)
        out.append(Partition(pkey, name, "", index0, bool(given.get("ip_over_ib", True)), everyone, q, members))
    return out, []
