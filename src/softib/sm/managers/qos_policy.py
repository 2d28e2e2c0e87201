"""QoS policy: it selects SL, limits and partition of the paths for a request (OpenSM's
``qos-policy.conf`` and its document on QoS management).

    port-groups                        qos-levels                 qos-match-rules
        port-group                         qos-level                  qos-match-rule
            name: Storage                      name: DEFAULT              destination: Storage
            port-guid: 0x1, 0x5-0xfa           sl: 0                      service-id: 0x10000-0x1ffff
        end-port-group                     end-qos-level              qos-level-name: DEFAULT
    end-port-groups                    end-qos-levels             …

The first rule that matches a request is used. ``qos-ulps`` are rules in a short form, which come
after the others. If no rule matches, the level is DEFAULT. OpenSM skips lines that it cannot read;
this reader reports them with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from softib.errors import InputError
from softib.sm.options.values import number

__all__ = ["MatchRule", "PortGroup", "QosLevel", "QosPolicy", "parse_policy"]

Ranges = tuple[tuple[int, int], ...]
NODE_TYPES = ("CA", "SWITCH", "ROUTER", "SELF", "ALL")
DEFAULT_LEVEL = "DEFAULT"
_QUOTED = re.compile(r'"[^"]*"')
_TOKENS = re.compile(r'"[^"]*"|[^",]+|[",]')
IPOIB_PKEY = 0x7FFF
SDP_SERVICES = 0x10000
TCP_SERVICES = 0x1060000
"""Service IDs of SDP, RDS and iSER; the low 16 bits are a TCP port (same document, 6.2 to 6.4)."""
RDS_PORT, ISER_PORT = 0x48CA, 0x0CBC


@dataclass(frozen=True)
class PortGroup:
    """End ports by PortGUID, ``NodeDescription/Pnum``, partition (P_Key or name) and kind of node."""

    name: str = ""
    guids: Ranges = ()
    names: tuple[str, ...] = ()
    pkeys: Ranges = ()
    partitions: tuple[str, ...] = ()
    node_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class QosLevel:
    """The properties of a path. None: the level does not set the property. ``mtu`` and ``rate``
    (codes) are limits; ``pkeys`` are the partitions that are allowed."""

    name: str = ""
    sl: int | None = None
    mtu: int | None = None
    rate: int | None = None
    packet_life: int | None = None
    pkeys: Ranges = ()


@dataclass(frozen=True)
class MatchRule:
    """Criteria (empty: any), and the level. ``either``: the ``sources`` groups may be at either end
    of the path."""

    level: str = ""
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    either: bool = False
    pkeys: Ranges = ()
    qos_classes: Ranges = ()
    service_ids: Ranges = ()


@dataclass(frozen=True)
class QosPolicy:
    """The content of a file. The first of ``levels`` is DEFAULT."""

    groups: tuple[PortGroup, ...]
    levels: tuple[QosLevel, ...]
    rules: tuple[MatchRule, ...]


def _ranges(most: int) -> Callable[[str], Ranges]:
    def read(text: str) -> Ranges:
        out = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            a, b = int(first, 0), int(last or first, 0)
            if not 0 <= a <= b <= most:
                raise ValueError
            out.append((a, b))
        return tuple(out)

    return read


def _names(text: str) -> tuple[str, ...]:
    """Return the items between commas; a quoted text is one item, without its quotes."""
    names = [""]
    for token in _TOKENS.findall(text):
        if token == '"':
            raise ValueError
        if token == ",":
            names.append("")
        else:
            names[-1] += _text(token)
    if not all(names):
        raise ValueError
    return tuple(names)


def _text(text: str) -> str:
    """Return the text without the quotes around it, as in OpenSM."""
    text = text.strip()
    return text[1:-1] if _QUOTED.fullmatch(text) else text


def _port_names(text: str) -> tuple[str, ...]:
    """Return the node description and port number in ``NodeDescription/Pnum``, split at the last
    slash."""
    out = []
    for name in _names(text):
        node, slash, port = name.rpartition("/")
        if not slash or port[:1] not in ("p", "P") or int(port[1:], 0) < 1:
            raise ValueError
        out.append(f"{node}/P{int(port[1:], 0)}")
    return tuple(out)


def _types(text: str) -> tuple[str, ...]:
    names = tuple(name.upper() for name in _names(text))
    if not set(names) <= set(NODE_TYPES):
        raise ValueError
    return names


_U64 = _ranges((1 << 64) - 1)
_PKEYS = _ranges(0xFFFF)
_KEYS: dict[str, dict[str, tuple[str, Callable[[str], Any]]]] = {
    "port-group": {
        "name": ("name", _text),
        "port-guid": ("guids", _U64),
        "port-name": ("names", _port_names),
        "pkey": ("pkeys", _PKEYS),
        "partition": ("partitions", _names),
        "node-type": ("node_types", _types),
    },
    "qos-level": {
        "name": ("name", _text),
        "sl": ("sl", number(0, 15)),
        "mtu-limit": ("mtu", number(0, 5)),
        "rate-limit": ("rate", number(0, 63)),
        "packet-life": ("packet_life", number(0, 63)),
        "pkey": ("pkeys", _PKEYS),
    },
    "qos-match-rule": {
        "source": ("sources", _names),
        "destination": ("targets", _names),
        "pkey": ("pkeys", _PKEYS),
        "qos-class": ("qos_classes", _ranges(0xFFF)),
        "service-id": ("service_ids", _U64),
        "qos-level-name": ("level", _text),
    },
}
"""Block → key → (field, reader of its value). ``use`` is a comment everywhere."""
_SECTIONS = {"port-groups": "port-group", "qos-levels": "qos-level", "qos-match-rules": "qos-match-rule"}
_MAKES: dict[str, type] = {"port-group": PortGroup, "qos-level": QosLevel, "qos-match-rule": MatchRule}


@dataclass
class _Reader:
    """The lines of a file, with their location."""

    name: str
    at: int = 0
    groups: list[PortGroup] = field(default_factory=list)
    levels: list[QosLevel] = field(default_factory=list)
    rules: list[MatchRule] = field(default_factory=list)
    ulps: list[MatchRule] = field(default_factory=list)
    ulp_default: int | None = None

    def wrong(self, reason: str) -> InputError:
        return InputError(f"{self.name}:{self.at}: {reason}")


def parse_policy(text: str, name: str = "qos-policy.conf") -> QosPolicy:
    """Return the policy in ``text``. Raises :class:`InputError` with file, line and a
    correction."""
    r = _Reader(name)
    section, block = "", ""
    fields: dict[str, Any] = {}
    for r.at, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#")[0].strip()
        if not line or (section == "qos-setup" and line != "end-qos-setup"):
            continue
        if block:
            if line == f"end-{block}":
                _finish(r, block, fields)
                block = ""
            else:
                _key(r, block, line, fields)
        elif section:
            if line == f"end-{section}":
                section = ""
            elif section == "qos-ulps":
                _ulp(r, line)
            elif line == _SECTIONS.get(section):
                block, fields = line, {}
            else:
                raise r.wrong(f"{line!r} is not part of {section}; use {_SECTIONS[section]} or end-{section}")
        elif line in (*_SECTIONS, "qos-ulps", "qos-setup"):
            section = line
        else:
            raise r.wrong(f"{line!r} is not the start of a section; sections are {', '.join((*_SECTIONS, 'qos-ulps'))}")
    if section or block:
        raise r.wrong(f"the file ends inside {block or section}; end-{block or section} is missing")
    return _whole(r)


def _key(r: _Reader, block: str, line: str, fields: dict[str, Any]) -> None:
    key, colon, value = (part.strip() for part in line.partition(":"))
    if key == "use":
        return
    if not colon or key not in _KEYS[block]:
        raise r.wrong(f"{line[:40]!r} is not a line of {block}; its keys are {', '.join(_KEYS[block])}, use")
    name, read = _KEYS[block][key]
    try:
        new = read(value)
    except ValueError:
        raise r.wrong(f"{key}: {value[:40]!r} is not possible") from None
    fields[name] = fields.get(name, ()) + new if isinstance(new, tuple) else new


def _finish(r: _Reader, block: str, fields: dict[str, Any]) -> None:
    if block == "qos-match-rule":
        if "level" not in fields:
            raise r.wrong("a qos-match-rule needs a qos-level-name")
        r.rules.append(MatchRule(**fields))
        return
    new = _MAKES[block](**fields)
    others: list[Any] = r.groups if block == "port-group" else r.levels
    if not new.name or new.name in [k.name for k in others]:
        raise r.wrong(f"a {block} needs a unique name")
    if block == "qos-level" and new.sl is None:
        raise r.wrong(f"qos-level {new.name!r} needs an sl")
    others.append(new)


def _ulp(r: _Reader, line: str) -> None:
    """Parse ``sdp, port-num 30000 : 0`` and other short rules."""
    rule, _, sl_text = (part.strip() for part in line.rpartition(":"))
    kind, _, limit = (part.strip() for part in rule.partition(","))
    try:
        sl = number(0, 15)(sl_text)
        if kind == "default" and not limit:
            r.ulp_default = sl
            return
        r.ulps.append(replace(_ulp_rule(r, kind, limit), level=f"sl {sl}"))
    except ValueError:
        raise r.wrong(
            f"{line[:60]!r} is not a rule of qos-ulps; use for example 'any, service-id 0x6234 : 6'"
        ) from None


def _ulp_rule(r: _Reader, kind: str, limit: str) -> MatchRule:
    """Return the criteria of a short rule. Raises ValueError for an unknown one."""
    key, _, values = limit.partition(" ")
    if kind == "sdp":
        return MatchRule(service_ids=_services(SDP_SERVICES, (0, 0xFFFF), key, values))
    if kind in ("rds", "iser"):
        port = RDS_PORT if kind == "rds" else ISER_PORT
        return MatchRule(service_ids=_services(TCP_SERVICES, (port, port), key, values))
    if kind == "ipoib" and key in ("", "pkey"):
        return MatchRule(pkeys=_PKEYS(values) if key else ((IPOIB_PKEY, IPOIB_PKEY),))
    if kind == "any" and key == "service-id":
        return MatchRule(service_ids=_U64(values))
    if kind == "any" and key == "pkey":
        return MatchRule(pkeys=_PKEYS(values))
    ends = {"target-port-guid": "targets", "source-port-guid": "sources", "source-target-port-guid": "sources"}
    if key not in ends or not (kind == "any" or (kind == "srp" and key == "target-port-guid")):
        raise ValueError
    group = PortGroup(f"line {r.at}", _U64(values))
    r.groups.append(group)
    sides: dict[str, Any] = {ends[key]: (group.name,)}
    return MatchRule(**sides, either=key == "source-target-port-guid")


def _services(base: int, ports: tuple[int, int], key: str, values: str) -> Ranges:
    """Return the service IDs of TCP ports: ``ports``, or those in ``port-num``."""
    if key not in ("", "port-num"):
        raise ValueError
    return tuple((base + a, base + b) for a, b in (_ranges(0xFFFF)(values) if key else (ports,)))


def _whole(r: _Reader) -> QosPolicy:
    levels = {level.name: level for level in r.levels}
    if r.ulp_default is not None:
        levels.setdefault(DEFAULT_LEVEL, QosLevel(DEFAULT_LEVEL, r.ulp_default))
    if DEFAULT_LEVEL not in levels:
        raise r.wrong("there is no qos-level DEFAULT (and no default in qos-ulps) for requests that match no rule")
    for rule in r.ulps:
        levels.setdefault(rule.level, QosLevel(rule.level, int(rule.level.split()[1])))
    groups = {group.name for group in r.groups}
    for rule in r.rules:
        if rule.level not in levels:
            raise r.wrong(f"a qos-match-rule names the qos-level {rule.level!r}, which does not exist")
        for name in (*rule.sources, *rule.targets):
            if name not in groups:
                raise r.wrong(f"a qos-match-rule names the port-group {name!r}, which does not exist")
    first = levels.pop(DEFAULT_LEVEL)
    return QosPolicy(tuple(r.groups), (first, *levels.values()), (*r.rules, *r.ulps))
