"""Manifests of hosts: the expected state of a host, written manually or recorded from a good host.

adapters:
  mlx5_*:                        # names, also patterns; each must match an adapter
    count: 8                     # that many adapters match (default: one or more)
    firmware: 28.39.1002
    psid: MT_0000000838
    pcie: {gts: 32, width: 16}   # at least
    ports:
      1: {state: ACTIVE, gbps: 400, lanes: 4, link_layer: InfiniBand, gids: 1, pkeys: [0xffff]}
counters: {symbol_error: 10}     # largest rise in an hour
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from softib.errors import InputError
from softib.foreign_text import shown
from softib.host_facts.facts import AdapterFacts, HostFacts
from softib.input_files import read_text
from softib.plain_yaml import load_plain_yaml

__all__ = ["COUNTERS", "AdapterWanted", "Manifest", "PortWanted", "read_manifest", "recorded"]

COUNTERS = {
    "symbol_error": 10,
    "link_error_recovery": 0,
    "link_downed": 0,
    "port_rcv_errors": 10,
    "local_link_integrity_errors": 0,
    "excessive_buffer_overrun_errors": 0,
    "VL15_dropped": 10,
}
"""The counters that are checked, and the largest rise of each in an hour if the manifest does not state one. softib
chose these values; a link with the specification's bit error rate of 1e-12 has fewer symbol errors."""

MOST = 1 << 20
"""Largest size of a manifest in bytes."""


@dataclass(frozen=True)
class PortWanted:
    """The expected state of a port; fields that are None are not checked. ``gbps``, ``lanes``, ``gids`` are minimum
    values. All of ``pkeys`` must be in the port's table."""

    state: str | None = None
    link_layer: str | None = None
    gbps: float | None = None
    lanes: int | None = None
    gids: int | None = None
    pkeys: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AdapterWanted:
    """The expected state of adapters. ``count``: number of adapters that match; None: one or more. ``gts`` and
    ``width``: minimum of the PCIe link; None: the card's maximum."""

    count: int | None = None
    firmware: str | None = None
    psid: str | None = None
    gts: float | None = None
    width: int | None = None
    ports: Mapping[int, PortWanted] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """The expected state of a host. ``adapters``: by name or pattern. ``counters``: the largest rise of each counter in
    an hour."""

    adapters: Mapping[str, AdapterWanted] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=lambda: dict(COUNTERS))


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest. Raises :class:`UnreadableFile` or :class:`InputError`, one line, for any other file."""
    where = shown(os.fspath(path))
    document = load_plain_yaml(read_text(path, "manifest", MOST), where, "manifest")
    top = _map(document, where, {"adapters", "counters"})
    adapters = {
        str(name): _adapter(value, f"{where}: adapters.{shown(str(name))}")
        for name, value in _map(top.get("adapters"), f"{where}: adapters").items()
    }
    rises = {
        str(k): _number(v, f"{where}: counters.{shown(str(k))}")
        for k, v in _map(top.get("counters"), f"{where}: counters").items()
    }
    return Manifest(adapters, {**COUNTERS, **rises})


def _adapter(value: Any, where: str) -> AdapterWanted:
    given = _map(value, where, {"count", "firmware", "psid", "pcie", "ports"})
    pcie = _map(given.get("pcie"), f"{where}.pcie", {"gts", "width"})
    ports = {}
    for number, port in _map(given.get("ports"), f"{where}.ports").items():
        if not isinstance(number, int) or isinstance(number, bool):
            raise InputError(f"{where}.ports: {shown(str(number))} is not a port number; use 1, 2 …")
        ports[number] = _port(port, f"{where}.ports.{number}")
    number = lambda key: None if given.get(key) is None else int(_number(given[key], f"{where}.{key}"))
    return AdapterWanted(
        number("count"),
        _text(given.get("firmware"), f"{where}.firmware"),
        _text(given.get("psid"), f"{where}.psid"),
        None if pcie.get("gts") is None else _number(pcie["gts"], f"{where}.pcie.gts"),
        None if pcie.get("width") is None else int(_number(pcie["width"], f"{where}.pcie.width")),
        ports,
    )


def _port(value: Any, where: str) -> PortWanted:
    given = _map(value, where, {"state", "link_layer", "gbps", "lanes", "gids", "pkeys"})
    number = lambda key: None if given.get(key) is None else _number(given[key], f"{where}.{key}")
    keys = given.get("pkeys")
    if keys is not None and not (isinstance(keys, list) and all(isinstance(k, int) and 0 < k < 65536 for k in keys)):
        raise InputError(f"{where}.pkeys: use a list of P_Keys, for example [0xffff, 0x8001]")
    whole = lambda key: None if number(key) is None else int(number(key) or 0)
    return PortWanted(
        _text(given.get("state"), f"{where}.state"),
        _text(given.get("link_layer"), f"{where}.link_layer"),
        number("gbps"),
        whole("lanes"),
        whole("gids"),
        None if keys is None else tuple(keys),
    )


def _map(value: Any, where: str, keys: set[str] | None = None) -> dict[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{where}: use a mapping, not {shown(str(value))[:40]!r}")
    for key in value:
        if keys is not None and key not in keys:
            raise InputError(f"{where}: unknown key {shown(str(key))[:40]!r}; use {', '.join(sorted(keys))}")
    return value


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InputError(f"{where}: use a number, not {shown(str(value))[:40]!r}")
    return float(value)


def _text(value: Any, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InputError(
            f"{where}: put {shown(str(value))[:40]} in quotation marks; without them it is read as a number"
        )
    return value


def recorded(host: HostFacts) -> dict[str, Any]:
    """Return a manifest that the host meets now, as values for YAML."""
    return {"adapters": {a.name: _recorded_adapter(a) for a in host.adapters}, "counters": dict(COUNTERS)}


def _recorded_adapter(a: AdapterFacts) -> dict[str, Any]:
    out: dict[str, Any] = {"firmware": a.firmware, "psid": a.psid}
    if a.pcie is not None:
        out["pcie"] = {"gts": a.pcie.gts, "width": a.pcie.width}
    out["ports"] = {
        p.number: {
            "state": p.state,
            "link_layer": p.link_layer,
            "gbps": p.gbps,
            "lanes": p.lanes,
            "gids": len(p.gids),
            "pkeys": list(p.pkeys),
        }
        for p in a.ports
    }
    return {k: v for k, v in out.items() if v not in ("", None)}
