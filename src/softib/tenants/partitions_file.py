"""Converts the service's partitions to OpenSM's partitions.conf, which every supported manager reads, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from softib.errors import InputError
from softib.plural import counted
from softib.sm.managers.partitions import BEFORE_FILE, DEFAULT_SCOPE, FULL, LIMITED, parse_changes
from softib.sm.managers.partitions import Partition as SmPartition
from softib.tenants.changes import Refused
from softib.tenants.model import (
    DEFAULT_BASE,
    MTU_CODES,
    NO_RATE,
    RATES,
    Member,
    Partition,
    Qos,
    guid_text,
    members_of,
    parse_guid,
    parse_pkey,
)

__all__ = ["PartitionsOfFile", "conf_of", "exported", "from_conf", "from_ufm", "line_of", "to_conf"]

_ENDS_NAME = re.compile("[:,=;#]")
"""Characters that end a name in OpenSM's file, where names cannot be quoted. A name cannot contain control characters
or have spaces at its start or end, either.
"""
LINE_MEMBERS = 64
"""Maximum number of members in a line. OpenSM reads at most 4,094 bytes of a line; it takes the rest for another
definition and rejects the file.
"""
HEAD = "# Written by softib; changes made here are lost. Partitions are changed through its REST interface.\n"


def to_conf(partitions: Iterable[Partition], whole: bool = True, manager: int = 0) -> str:
    """Return the text of the file; the default partition comes first. A ``whole`` file omits empty partitions without
    IPoIB, which have no effect; with IPoIB, OpenSM creates their broadcast group. ``manager``: see :func:`line_of`.
    """
    return conf_of(
        {p.pkey: line_of(p, manager) for p in partitions if p.members or p.everyone or p.ip_over_ib or not whole}
    )


def conf_of(lines: Mapping[int, str]) -> str:
    """Return the text of the file. ``lines``: P_Key → line of the partition. The default partition comes first.
    Partitions whose P_Key is at index 0 come last, in descending order of P_Keys, because OpenSM 3.3.23 puts the last
    of them that it reads at index 0 of a port's table.
    """
    at_index0 = lambda pkey: ", indx0" in lines[pkey].split(" : ")[0]
    ordered = sorted(lines.keys() - {DEFAULT_BASE}, key=lambda pkey: (1, -pkey) if at_index0(pkey) else (0, pkey))
    return "".join([HEAD, lines.get(DEFAULT_BASE, ""), *(lines[pkey] for pkey in ordered)])


def line_of(partition: Partition, manager: int = 0) -> str:
    """Return the definition of a partition. The P_Key of a partition with the port of the subnet ``manager`` is never
    at index 0: management packets use the P_Key at index 0, and no port reaches the manager unless it is the default
    P_Key.
    """
    p, (mtu, rate, sl) = partition, partition.qos.codes
    flags = [f"{_name(p)}={p.pkey:#x}"]
    flags += ["indx0"] if p.index0 and manager not in p.members else []
    flags += ["ipoib"] if p.ip_over_ib else []
    flags += [f"mtu={mtu}", f"sl={sl}"]
    flags += [f"rate={rate}"] if p.qos.rate != NO_RATE else []
    members = [f"ALL={p.everyone}", "SELF=full"] if p.everyone else []
    others = {
        g: m for g, m in p.members.items() if not (p.everyone and g == manager)
    }  # the line names the manager's port as SELF
    members += [f"{guid:#018x}={'full' if m.full else 'limited'}" for guid, m in sorted(others.items())]
    lines = [", ".join(members[i : i + LINE_MEMBERS]) for i in range(0, len(members), LINE_MEMBERS)]
    return f"{', '.join(flags)} : {f',{chr(10)}  '.join(lines)} ;\n"


def _name(p: Partition) -> str:
    """Return the partition's name if the file can contain it, otherwise a stand-in, because a name with special
    characters would end the definition.
    """
    if p.pkey == DEFAULT_BASE:
        return "Default"
    fits = p.name.isprintable() and p.name == p.name.strip() and not _ENDS_NAME.search(p.name)
    return p.name if p.name and fits and p.name.lower() != "default" else _stand_in(p.pkey)


def _stand_in(pkey: int) -> str:
    """Return the stand-in for a partition's name that the file cannot contain."""
    return f"pkey_{pkey:#x}"


def exported(partitions: Iterable[Partition]) -> str:
    """Return the text of the file with all partitions. Comments at its beginning list attributes that the file cannot
    express.
    """
    ordered = sorted(partitions, key=lambda p: p.pkey)
    return "".join(_not_held(p) for p in ordered) + to_conf(ordered, whole=False)


def _not_held(p: Partition) -> str:
    hosts = sum(bool(m.host) for m in p.members.values())
    parts = [f"its name {p.name!a}"] if p.pkey != DEFAULT_BASE and _name(p) != p.name else []
    parts += [f"its tenant {p.tenant!a}"] if p.tenant else []
    parts += [f"the host's name of {counted(hosts, 'member')}"] if hosts else []
    return f"# This file cannot hold of {p.pkey:#x}: {', '.join(parts)}\n" if parts else ""


class PartitionsOfFile(NamedTuple):
    """The partitions of a file."""

    partitions: list[Partition]
    notes: list[str]
    """A line for each definition that the service does not support."""


def from_conf(text: str, name: str, taken: Iterable[int] = (), present: Iterable[Partition] = ()) -> PartitionsOfFile:
    """Return the partitions of a file. A partition without a P_Key gets the P_Key of the ``present`` partition with its
    name; if there is none, it gets a P_Key that is neither ``taken`` nor in the file. If the file has a stand-in for
    the name of a ``present`` partition, the partition keeps its name. Raises :class:`InputError` with file and line if
    the file cannot be read. Raises :class:`Refused` if several present partitions have the name of a partition without
    a P_Key, or if the file gives that P_Key to another partition.
    """
    partitions, notes, present = parse_changes(text, name), list[str](), list(present)
    if taken := set(taken):
        stated = {p.pkey: p.name for p in partitions if not p.chosen}
        partitions = parse_changes(text, name, taken | {p.pkey for p in partitions})
        of_name: dict[str, list[int]] = {}
        for one in present:
            of_name.setdefault(_name(one), []).append(one.pkey)
        for p in partitions:
            if p.chosen:
                notes.append(_choose(p, of_name.get(p.name, []), stated, name))
    default = next((p for p in partitions if p.pkey == DEFAULT_BASE), None)
    if default is not None:
        default.members[:0] = BEFORE_FILE
    else:
        notes.append(
            f"{name}: the file does not contain the default partition, which stays unchanged; OpenSM makes its members "
            f"limited"
        )
    names = {p.pkey: p.name for p in present if p.name != _name(p) == _stand_in(p.pkey)}
    kept = [_kept(_partition(p, name, notes), names, name, notes) for p in partitions]
    return PartitionsOfFile(kept, notes)


def _kept(p: Partition, names: Mapping[int, str], file: str, notes: list[str]) -> Partition:
    """Return the partition with its name from ``names`` if the file has a stand-in for this name."""
    if p.name != _stand_in(p.pkey) or p.pkey not in names:
        return p
    notes.append(f"{file}: {p.name} keeps its name {names[p.pkey]!a}")
    return replace(p, name=names[p.pkey])


def _choose(p: SmPartition, present: list[int], stated: Mapping[int, str], file: str) -> str:
    """Assign the P_Key of the ``present`` partition with the same name to a partition that has no P_Key in the file.
    Return a note about it.
    """
    if len(present) > 1:
        keys = ", ".join(f"{pkey:#x}" for pkey in present[:4])
        raise Refused(
            f"{file}: partition {p.name} has no P_Key, and several partitions in the subnet have that name ({keys}); "
            f"set its P_Key in the file"
        )
    if not present:
        return f"{file}: {p.name or 'a partition'} has no P_Key; it gets {p.pkey:#x}"
    (p.pkey,) = present
    if p.pkey in stated:
        raise Refused(
            f"{file}: partition {p.name} has no P_Key; in the subnet it has {p.pkey:#x}, but the file gives "
            f"{p.pkey:#x} to {stated[p.pkey] or 'another partition'}; set the P_Key of both in the file"
        )
    return (
        f"{file}: partition {p.name} has no P_Key; it gets {p.pkey:#x}, the P_Key of the partition with that name in "
        f"the subnet"
    )


_NOT_KEPT = {"qkey": "Q_Key", "tclass": "TClass", "flow_label": "FlowLabel"}


def _partition(p: SmPartition, file: str, notes: list[str]) -> Partition:
    members: dict[int, Member] = {}
    everyone, omitted = "", list[str]()
    for who, bits in p.members:
        full = bool(bits & FULL)
        if who == "SELF" and p.pkey == DEFAULT_BASE:
            omitted += [] if full else ["the limited membership of SELF"]
            continue
        if isinstance(who, int):
            members[who] = Member(full)
        elif who in ("ALL", "ALL_CAS") and p.pkey == DEFAULT_BASE:
            everyone = "full" if full else "limited"
        else:
            omitted.append(f"{who} (use GUIDs)")
        if bits == FULL | LIMITED:
            omitted.append(f"the limited one of both memberships of {who if isinstance(who, str) else guid_text(who)}")
    mtu = {code: mtu for mtu, code in MTU_CODES.items()}.get(p.stated.get("mtu", MTU_CODES[Qos().mtu]))
    rate = {code: rate for rate, code in RATES.items()}.get(p.stated.get("rate", RATES[NO_RATE]))
    if p.stated.get("rate") == RATES[NO_RATE]:
        omitted.append("rate=2 (2.5 Gb/s, with which UFM means no rate)")
    omitted += [f"mtu={p.stated['mtu']} (not an MTU of UFM; 2 KiB is used)"] if mtu is None else []
    omitted += [f"rate={p.stated['rate']} (not a rate of UFM; none is used)"] if rate is None else []
    omitted += [flag for name, flag in _NOT_KEPT.items() if name in p.stated]
    omitted += ["scope"] if any(g.scope != DEFAULT_SCOPE for g in p.groups if not g.mgid) else []
    omitted += ["its multicast groups"] if any(g.mgid for g in p.groups) else []
    if omitted:
        notes.append(f"{file}: {p.name or hex(p.pkey)}: omitted: {', '.join(omitted)}")
    qos = Qos(mtu or Qos().mtu, p.sl, rate or NO_RATE)
    title = "management" if p.pkey == DEFAULT_BASE else p.name or f"api_pkey_{p.pkey:#x}"
    return Partition(p.pkey, title, "", p.index0, p.ipoib, everyone, qos, members)


def from_ufm(document: object) -> list[Partition]:
    """Return the partitions of UFM's answer to ``GET resources/pkeys?guids_data=true``. Raises
    :class:`InputError` for other input."""
    if not isinstance(document, dict):
        raise InputError("content: must be UFM's answer to GET resources/pkeys?guids_data=true, a mapping by P_Key")
    out: dict[int, Partition] = {}
    for text, given in document.items():
        partition = _of_ufm(text, given)
        if partition.pkey in out:
            raise InputError(f"content: {text[:24]} occurs twice; remove one")
        out[partition.pkey] = partition
    return list(out.values())


def _of_ufm(text: str, given: object) -> Partition:
    pkey, where = parse_pkey(text), f"content: {text[:24]}"
    if not isinstance(given, dict):
        raise InputError(f"{where}: must be a mapping")
    if "guids" not in given:
        raise InputError(f"{where} has no guids; use guids_data=true in the request to UFM")
    listed = given["guids"]
    if not isinstance(listed, list) or not all(isinstance(g, dict) for g in listed):
        raise InputError(f"{where}: guids must be a list of mappings")
    flag = lambda of, key, default: _one_of(of.get(key), (True, False), default, f"{where}: {key}")
    full = lambda of, key: _one_of(of.get(key), ("full", "limited"), "full", f"{where}: {key}")
    members = members_of((parse_guid(g.get("guid")), Member(full(g, "membership") == "full")) for g in listed)
    qos = given.get("qos_conf") or {}
    try:
        if any(isinstance(value, bool) for value in qos.values()):
            raise TypeError
        q = Qos(int(qos.get("mtu_limit", 2)), int(qos.get("service_level", 0)), float(qos.get("rate_limit", 2.5)))
    except (AttributeError, OverflowError, TypeError, ValueError):
        raise InputError(f"{where}: qos_conf must be mtu_limit, service_level and rate_limit") from None
    name = given.get("partition") or f"api_pkey_{pkey:#x}"
    if not isinstance(name, str):
        raise InputError(f"{where}: partition must be a name")
    everyone = full(given, "membership") if pkey == DEFAULT_BASE else ""
    index0 = [flag(g, "index0", False) for g in listed]
    return Partition(pkey, name[:128], "", any(index0), flag(given, "ip_over_ib", True), everyone, q, members)


def _one_of(value: object, possible: tuple[Any, ...], default: Any, where: str) -> Any:
    if value is None:
        return default
    match = next((one for one in possible if one is value or (isinstance(one, str) and one == value)), None)
    if match is None:
        raise InputError(f"{where} must be {' or '.join(map(str, possible)).lower()}")
    return match
