"""The file of ``softib ci`` and the notation of its faults.

fabric: cluster.yaml          # beside this file; without it eight hosts on four leaves
nodes:
  host-0001: ./server
  host-0002: cd build && ./client -n 9    # run by a shell
faults: [link-down@2s]

A line of text runs in a shell; a list of words runs without a shell.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import InputError, UnknownName
from softib.fabric.faults.targets import node_at, port_at
from softib.fabric.model import Fabric
from softib.fabric.node_finder import port_named, split_port
from softib.live.faults.fault_list import locations_of
from softib.live.faults.options import KINDS, options_of, rate_option
from softib.plain_yaml import load_yaml

__all__ = ["Plan", "PlannedFault", "check_names", "planned_fault", "read_plan"]

UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "": 1.0}
FAULT = re.compile(r"(?P<what>[^@]+)@(?P<time>\d+(?:\.\d+)?)(?P<unit>ms|s|m|)")
QUESTIONS = ("list",)
"""Arguments of ``softib fault`` that are not kinds of fault."""
KEYS = ("fabric", "nodes", "faults")
SHELL = frozenset("|&;<>()$`*?[~#={!\n")
"""Characters with a meaning for a shell."""


@dataclass
class Plan:
    """Content of the file."""

    commands: dict[str, list[str]]
    source: str | None = None
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PlannedFault:
    """A fault of the schedule. If ``where`` is empty, the location is a cable on the path from the first node to the
    last."""

    kind: str
    where: str
    options: Mapping[str, Any]
    at_s: float


def planned_fault(text: str) -> PlannedFault:
    """Return the fault in a text like ``link-down@2s``, ``link-down leaf-1[3]@500ms`` or ``ber leaf-1[3] 1e-6@1s``.
    Raises :class:`InputError`."""
    hit = FAULT.fullmatch(text.strip())
    arguments = hit["what"].split() if hit else []
    if hit is None or not 1 <= len(arguments) <= 3:
        raise InputError(f"fault {text!r} is not KIND[ PLACE[ RATE]]@TIME; use for example 'link-down@2s'")
    try:
        rate = float(arguments[2]) if len(arguments) == 3 else None
    except ValueError:
        raise InputError(f"fault {text!r}: {arguments[2]!r} is not a number") from None
    kind, where = arguments[0], arguments[1] if len(arguments) > 1 else ""
    kinds = {name: rate_option(name) for name in KINDS if name not in QUESTIONS}
    if kind not in kinds:
        raise UnknownName("fault", kind, kinds)
    if (rate is not None) != (kinds[kind] is not None):
        raise InputError(
            f"fault {text!r}: use RATE with {', '.join(k for k, v in kinds.items() if v)}, and with no other fault"
        )
    if KINDS[kind].of_node and not where:
        raise InputError(f"fault {text!r} has no location; {kind} needs {KINDS[kind].place}")
    options = {} if rate is None else {str(kinds[kind]): rate}
    options_of(kind, options)
    return PlannedFault(kind, where, options, float(hit["time"]) * UNITS[hit["unit"]])


def check_names(fabric: Fabric, nodes: Iterable[str], faults: Iterable[PlannedFault]) -> None:
    """Raise :class:`InputError` or :class:`UnknownName` for a node or location that is not in
    ``fabric``."""
    for node in nodes:
        port_named(fabric, node)
    for fault in faults:
        of_node = KINDS[fault.kind].of_node
        for place in locations_of(fabric, fault.where, of_node) if fault.where else ():
            (node_at if of_node or (fault.kind == "clear" and split_port(place) is None) else port_at)(fabric, place)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Return the content of the file ``path``. Raises :class:`InputError` with file and line."""
    data, lines = load_yaml(Path(path), "file of softib ci", "nodes:")
    for key in data:
        if key not in KEYS:
            raise InputError(f"{path}:{lines.of((key,))}: unknown key {key!r}; the keys are {', '.join(KEYS)}")
    nodes = data.get("nodes")
    if not isinstance(nodes, dict) or not nodes:
        raise InputError(f"{path}: nodes: is missing; use a command by node, for example host-0001: ./server")
    commands = {}
    for node, command in nodes.items():
        try:
            arguments = _arguments(command) if isinstance(command, str) else command
        except ValueError:  # a quotation mark is not closed
            arguments = None
        if not isinstance(arguments, list) or not arguments or not all(isinstance(w, str) for w in arguments):
            raise InputError(
                f"{path}:{lines.of(('nodes', node))}: {node}: a command must be a string or a list of strings"
            )
        commands[str(node)] = arguments
    source, faults = data.get("fabric"), data.get("faults", [])
    if (
        not isinstance(source, str | None)
        or not isinstance(faults, list)
        or not all(isinstance(f, str) for f in faults)
    ):
        raise InputError(f"{path}: fabric: must be a path, and faults: a list of strings, for example link-down@2s")
    return Plan(commands, None if source is None else str(Path(path).parent / source), faults)


def _arguments(command: str) -> list[str]:
    """Return the words of a command line; a line with characters of the shell is run by ``sh -c``. Raises
    :class:`ValueError` for a quotation mark that is not closed."""
    arguments = shlex.split(command)
    return ["sh", "-c", command] if arguments and SHELL & set(command) else arguments
