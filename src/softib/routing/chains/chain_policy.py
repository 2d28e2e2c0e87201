"""Routing chains: a separate engine for each part of a fabric (the documents ``port-groups.txt``
and ``routing-chains.txt`` of NVIDIA's OpenSM).

Three files, each made of blocks of ``key: value`` lines::

    port-group                      topology                        unicast-step
    name: leaves                    id: 1                           id: 2
    port-guid: 0x283, 0x286@1-5/7   sw-grp: leaves                  engine: updn
    end-port-group                  hca-grp: hosts                  topology: 1
                                    end-topology                    end-unicast-step

OpenSM skips meaningless lines (for example, a fallback to a step that does not exist); this reader
reports them with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softib.errors import InputError

if TYPE_CHECKING:
    from softib.routing.engine import RouteOptions

__all__ = [
    "ONE_VL",
    "PREDEFINED",
    "ChainPolicy",
    "HostRule",
    "NameRule",
    "PortGroup",
    "Step",
    "Topology",
    "parse_chain",
    "parse_groups",
]

PREDEFINED = ("ALL", "ALL_SWITCHES", "ALL_CAS")
ONE_VL = ("minhop", "updn", "dnup", "ftree", "dor", "sssp", "file")
"""Engines that a step can use. The other engines assign SLs to whole paths, but a path may cross
the parts of several steps."""
MOST_PORT = 254

Ports = frozenset[int]
"""Port numbers; the empty set means all ports."""


@dataclass(frozen=True)
class HostRule:
    """Matches adapters whose NodeDescription begins with the word ``host``. ``hca`` is the number
    in ``HCA-n`` or ``mlx5_n``; None matches any."""

    host: str
    ports: Ports = frozenset()
    hca: int | None = None


@dataclass(frozen=True)
class NameRule:
    """Nodes whose NodeDescription matches ``pattern``."""

    pattern: re.Pattern[str]
    ports: Ports = frozenset()


@dataclass(frozen=True)
class PortGroup:
    """Ports that are given by PortGUID or NodeGUID (``guids``, ``ranges``), by NodeDescription, or
    as other groups. The group is the union of all these."""

    name: str = ""
    guids: tuple[tuple[int, Ports], ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    hosts: tuple[HostRule, ...] = ()
    patterns: tuple[NameRule, ...] = ()
    unions: tuple[tuple[str, str], ...] = ()
    subtractions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Topology:
    """A part of the fabric. It names a group that contains its switch ports, and a group that
    contains its adapters."""

    id: int = 0
    switches: str = ""
    adapters: str = ""


@dataclass(frozen=True)
class Step:
    """A step of the chain. ``topology`` 0 is the whole fabric. ``fallback_to``: the step for which
    this step is a fallback; 0: none. ``config``: path of a file with OpenSM's options. ``options``:
    the engine options in this file; None: those of the whole chain."""

    id: int = 0
    engine: str = ""
    topology: int = 0
    fallback_to: int = 0
    config: str = ""
    options: RouteOptions | None = None


@dataclass(frozen=True)
class ChainPolicy:
    """The content of the three files. ``steps`` ascend by ID; the first one covers the whole
    fabric."""

    groups: tuple[PortGroup, ...]
    topologies: tuple[Topology, ...]
    steps: tuple[Step, ...]


def _guid(text: str) -> int:
    value = int(text, 16)
    if not 0 < value < 1 << 64:
        raise ValueError
    return value


def _ports(text: str) -> Ports:
    members: set[int] = set()
    for part in text.split("/"):
        first, _, last = part.partition("-")
        a, b = int(first), int(last or first)
        if not 0 < a <= b <= MOST_PORT:
            raise ValueError
        members |= set(range(a, b + 1))
    return frozenset(members)


def _guids(text: str) -> tuple[tuple[int, Ports], ...]:
    parts = [part.strip().partition("@") for part in text.split(",")]
    return tuple((_guid(guid.strip()), _ports(ports) if at else frozenset()) for guid, at, ports in parts)


def _range(text: str) -> tuple[tuple[int, int], ...]:
    first, dash, last = text.partition("-")
    a, b = _guid(first.strip()), _guid(last.strip())
    if not dash or a > b:
        raise ValueError
    return ((a, b),)


def _hosts(text: str) -> tuple[HostRule, ...]:
    out = []
    for part in text.split(","):
        fields = dict(word.strip().split("=") for word in part.split(";") if word.strip())
        host = fields.pop("hostname").strip()
        port, hca = fields.pop("port", ""), fields.pop("hca_idx", "")
        if fields or not host:
            raise ValueError
        out.append(HostRule(host, _ports(port) if port else frozenset(), int(hca) if hca else None))
    return tuple(out)


def _pattern(text: str) -> tuple[NameRule, ...]:
    pattern, colon, port = text.rpartition(":")
    return (NameRule(re.compile(pattern if colon else text), _ports(port) if colon else frozenset()),)


def _two(text: str) -> tuple[tuple[str, str], ...]:
    first, second = (name.strip() for name in text.split(","))
    if not first or not second:
        raise ValueError
    return ((first, second),)


def _name(text: str) -> str:
    if not text or ":" in text:
        raise ValueError
    return text


def _number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text, 0)
        if not least <= value < 1 << 32:
            raise ValueError
        return value

    return read


def _path_bit(text: str) -> int:
    if int(text, 0) != 0:
        raise ValueError
    return 0


_KEYS: dict[str, dict[str, tuple[str, Callable[[str], Any], str]]] = {
    "port-group": {
        "name": ("name", _name, "a name without a colon"),
        "port-guid": ("guids", _guids, "GUIDs, for example 0x283, 0x286@1-5/7"),
        "port-guid-range": ("ranges", _range, "one range, for example 0x283-0x289"),
        "port-name": ("hosts", _hosts, "for example hostname=node1; port=2; hca_idx=1"),
        "port-regexp": ("patterns", _pattern, "a regular expression, perhaps with :PORT"),
        "union-rule": ("unions", _two, "two groups"),
        "subtract-rule": ("subtractions", _two, "two groups"),
    },
    "topology": {
        "id": ("id", _number(1), "a number from 1 on"),
        "sw-grp": ("switches", _name, "a group"),
        "hca-grp": ("adapters", _name, "a group"),
    },
    "unicast-step": {
        "id": ("id", _number(1), "a number from 1 on"),
        "engine": ("engine", _name, "an engine"),
        "topology": ("topology", _number(0), "the ID of a topology, or 0"),
        "fallback-to": ("fallback_to", _number(1), "the ID of a step"),
        "config": ("config", _name, "a path"),
        "path-bit": ("", _path_bit, "0, the only possible value"),
    },
}
"""Block → key → (field, reader of its value, description of valid values). The key ``use`` is a comment in every
block."""


@dataclass
class _File:
    """The blocks of one file, each with its first line."""

    name: str
    block: str
    found: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def wrong(self, line: int, problem: str) -> InputError:
        return InputError(f"{self.name}:{line}: {problem}")

    def read(self, text: str) -> None:
        inside: dict[str, Any] | None = None
        number = begin = 0
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.split("#")[0].strip()
            if not line:
                continue
            if inside is None:
                if line != self.block:
                    raise self.wrong(number, f"{line[:40]!r} is outside of a block; a block begins with {self.block}")
                inside, begin = {}, number
            elif line == f"end-{self.block}":
                self.found.append((begin, inside))
                inside = None
            else:
                self._key(number, line, inside)
        if inside is not None:
            raise self.wrong(number, f"the file ends inside {self.block}; end-{self.block} is missing")

    def _key(self, number: int, line: str, fields: dict[str, Any]) -> None:
        key, colon, value = (part.strip() for part in line.partition(":"))
        keys = _KEYS[self.block]
        if colon and key == "use":
            return
        if not colon or key not in keys:
            raise self.wrong(
                number, f"{line[:40]!r} is not a line of {self.block}; its keys are {', '.join(keys)}, use"
            )
        name, read, right = keys[key]
        try:
            new = read(value)
        except (ValueError, KeyError, re.error):
            raise self.wrong(number, f"{key}: {value[:40]!r} is not valid; use {right}") from None
        if name:
            fields[name] = fields.get(name, ()) + new if isinstance(new, tuple) else new


def parse_chain(files: Mapping[str, tuple[str, str]]) -> ChainPolicy:
    """Return the policy of ``files``, which maps option (``pgrp_policy_file``,
    ``topo_policy_file``, ``rch_policy_file``) → (text, name for messages).

    Raises :class:`InputError` with file, line and a correction.
    """
    groups = _groups(_File(files.get("pgrp_policy_file", ("", "port groups"))[1], "port-group"), files)
    topologies = _topologies(_File(files.get("topo_policy_file", ("", "topologies"))[1], "topology"), files, groups)
    return ChainPolicy(
        groups, topologies, _steps(_File(files["rch_policy_file"][1], "unicast-step"), files, topologies)
    )


def parse_groups(text: str, name: str) -> tuple[PortGroup, ...]:
    """Parse only the port groups of a ``pgrp_policy_file``. Raises the errors of
    :func:`parse_chain`."""
    return _groups(_File(name, "port-group"), {"pgrp_policy_file": (text, name)})


def _groups(file: _File, files: Mapping[str, tuple[str, str]]) -> tuple[PortGroup, ...]:
    file.read(files.get("pgrp_policy_file", ("", ""))[0])
    out: list[PortGroup] = []
    for line, fields in file.found:
        group = PortGroup(**fields)
        names = {*PREDEFINED, *(g.name for g in out)}
        if not group.name or group.name in names:
            raise file.wrong(line, "a port-group needs a unique name, other than " + ", ".join(PREDEFINED))
        if len(fields) < 2:
            raise file.wrong(line, f"port-group {group.name!r} needs a rule, for example port-guid")
        for name in (n for pair in (*group.unions, *group.subtractions) for n in pair):
            if name not in names:
                raise file.wrong(line, f"port-group {group.name!r} names {name!r}, which is not defined above")
        out.append(group)
    return tuple(out)


def _topologies(
    file: _File, files: Mapping[str, tuple[str, str]], groups: tuple[PortGroup, ...]
) -> tuple[Topology, ...]:
    file.read(files.get("topo_policy_file", ("", ""))[0])
    names = {*PREDEFINED, *(g.name for g in groups)}
    out: list[Topology] = []
    for line, fields in file.found:
        topology = Topology(**fields)
        if len(fields) < 3 or topology.id in [t.id for t in out]:
            raise file.wrong(line, "a topology needs a unique id, a sw-grp and an hca-grp")
        for name in (topology.switches, topology.adapters):
            if name not in names:
                raise file.wrong(line, f"topology {topology.id} names the port-group {name!r}, which does not exist")
        out.append(topology)
    return tuple(out)


def _steps(file: _File, files: Mapping[str, tuple[str, str]], topologies: tuple[Topology, ...]) -> tuple[Step, ...]:
    file.read(files["rch_policy_file"][0])
    steps = sorted(((line, Step(**fields)) for line, fields in file.found), key=lambda step: step[1].id)
    by_id = {step.id: step for _, step in steps}
    parts = {0, *(t.id for t in topologies)}
    for line, step in steps:
        if not step.id or not step.engine:
            raise file.wrong(line, "a unicast-step needs an id and an engine")
        if step.engine not in ONE_VL:
            raise file.wrong(line, f"engine {step.engine!r} cannot be part of a chain; use one of {', '.join(ONE_VL)}")
        if step.topology not in parts:
            raise file.wrong(line, f"step {step.id} names topology {step.topology}, which does not exist")
        if by_id[step.id] is not step:
            raise file.wrong(line, f"two steps have the id {step.id}")
        if step.fallback_to and (step.fallback_to not in by_id or by_id[step.fallback_to].fallback_to):
            raise file.wrong(
                line,
                f"step {step.id} is a fallback to {step.fallback_to}, which is not a step, or is itself a fallback",
            )
    firsts = [(line, step) for line, step in steps if not step.fallback_to]
    if not firsts or firsts[0][1].topology:
        line = firsts[0][0] if firsts else 1
        raise file.wrong(line, "the step with the lowest id routes the whole fabric; use topology: 0")
    return tuple(step for _, step in steps)
