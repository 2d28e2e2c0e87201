"""The internal manager's settings, from the options of ``softib up``, a file of OpenSM's options,
and the fabric's file.

The files are read again on ``softib sm reload`` and SIGHUP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.input_files import read_text
from softib.sm.config import SmConfig, config_of
from softib.sm.managers.congestion_mgr import CC_OPTIONS
from softib.sm.options.fabric_yaml import ROUTE_KEYS, check_engine_keys, check_keys, settings_of
from softib.sm.options.file import OPTIONS, read_options
from softib.sm.options.opensm_conf import shown
from softib.sm.options.opensm_defaults import DEFAULTS
from softib.sm.options.qos import QOS_OPTIONS

__all__ = ["MISSING", "ManagerSettings"]

SWEEP_INTERVAL_PS = 10 * 10**12
"""Interval at which switches are queried for changes (OpenSM's sweep_interval)."""


MISSING = {
    "root_guid_file": "the roots are found without it, as with OpenSM",
    "cn_guid_file": "OpenSM's ftree is rejected, softib's takes all adapters for compute nodes",
    "io_guid_file": "OpenSM's ftree is rejected, softib's takes all adapters for compute nodes",
    "lfts_file": "engine file is rejected, as with OpenSM",
    "pgrp_policy_file": "port groups are unknown",
    "topo_policy_file": "engine chain is rejected",
    "rch_policy_file": "engine chain is rejected",
    "link_policy_file": "ports may train to all that they support",
    "prefix_routes_file": "OpenSM gives no path to other subnets, softib those that routers report",
}
"""For each file that an options file may name, the consequence if it does not exist. (OpenSM's updn and minhop do not
read the files of ftree.)"""


@dataclass(frozen=True)
class ManagerSettings:
    """``given``: fields of :class:`SmConfig` that the command line sets, and GUID files under their names in OpenSM's
    options. ``options``: path of OpenSM's options file; ``partitions``: the path of partitions.conf (default: the one
    in the options, then the fabric's). ``fallback``: the ``sm:`` section of the fabric's own file."""

    given: dict[str, Any] = field(default_factory=dict)
    options: str | None = None
    partitions: str | None = None
    fallback: dict[str, Any] = field(default_factory=dict)
    note: Callable[[str], None] = lambda text: None

    def read(self, partitions: str | None = None) -> SmConfig:
        """Return the manager's settings from the present content of the files. ``partitions``: the partition file that
        another program has given to the running manager. Raises :class:`~softib.errors.SoftibError` with one line if a
        file cannot be read, or has a setting that is invalid or would have no effect."""
        check_keys(self.fallback)
        check_engine_keys(self.fallback)
        options: dict[str, Any] = {}
        notes: list[str] = []
        if self.options is not None:
            text = read_text(self.options, "options file of OpenSM", errors="replace")
            options, notes = read_options(text, self.options)
        if (
            not {**self.fallback, **self.given}.get("torus_config")
            and not Path(options.get("torus_config", "/")).is_file()
        ):
            options.pop("torus_config", None)  # an OpenSM options file names this file even if it does not exist
        self._without_missing_files(options)
        files = {k: v for k, v in (self.fallback | options | self.given).items() if k in ROUTE_KEYS}
        named = options.pop("partition_config_file", None)
        if named and not (partitions or self.partitions) and not Path(named).exists():
            self.note(
                f"{self.options}: partition_config_file: no file {named}; all ports are full members, as with OpenSM"
            )
            named = None
        for note in notes:
            self.note(note)
        self._without_effect(options)
        path = partitions or self.partitions or named or self.fallback.get("partitions")
        section = {**self.fallback, **files, "partitions": path}
        policy = options.pop("qos_policy_file", None)
        if policy and options.get("qos", section.get("qos")):
            if Path(policy).is_file():
                section |= {"qos": True, "qos_policy_file": policy}
            else:  # an OpenSM options file names this file even if it does not exist
                self.note(f"{self.options}: qos_policy_file: no file {policy}; paths get no QoS level")
        section |= {key: options.pop(key) for key in ("prefix_routes_file", "link_policy_file") if key in options}
        first = settings_of(section)
        self._torus_without_qos(options | self.given, first)
        fields = {"sweep_interval_ps": SWEEP_INTERVAL_PS} | first | options | self.given
        return config_of({k: v for k, v in fields.items() if k not in ROUTE_KEYS})

    def _without_missing_files(self, options: dict[str, Any]) -> None:
        """Remove the files that do not exist, and note the consequence. OpenSM accepts such options files, and ``opensm
        -c`` writes some file names even if the files do not exist."""
        for key, consequence in MISSING.items():
            path = options.get(key)
            if path is None or Path(path).exists():
                continue
            del options[key]
            if Path(path).parts[-2:] != Path(str(DEFAULTS.get(key) or "")).parts[-2:]:  # also under another prefix
                self.note(f"{self.options}: {key}: no file {path}; {consequence}")

    def _without_effect(self, settings: dict[str, Any]) -> None:
        """Remove from ``settings`` the values that OpenSM would not read: QoS tables without ``qos TRUE``, and
        congestion control settings if congestion control is not enabled."""
        for switch, options in (("qos", QOS_OPTIONS), ("congestion_control", CC_OPTIONS)):
            if settings.get(switch, self.fallback.get(switch)):
                continue
            named = [name for name in settings if name in options]
            stated = [name for name in named if settings[name] != _default(name)]
            if stated:
                self.note(f"{self.options}: {', '.join(stated)}: no effect without {switch} TRUE, as with OpenSM")
            for name in named:
                del settings[name]

    def _torus_without_qos(self, stated: dict[str, Any], section: dict[str, Any]) -> None:
        engines = str(stated.get("engine", section.get("engine", ""))).split(",")
        if self.options is not None and "torus-2QoS" in engines and not stated.get("qos", section.get("qos")):
            self.note(
                "OpenSM 3.3.23 rejects torus-2QoS without qos TRUE and uses the next engine, or minhop; softib accepts "
                "it"
            )


def _default(name: str) -> Any:
    """Return OpenSM's default of an option as its reader converts it; None if it is empty."""
    default = DEFAULTS[name]
    try:
        return None if default is None else OPTIONS[name][1](shown(default))
    except ValueError:
        return None
