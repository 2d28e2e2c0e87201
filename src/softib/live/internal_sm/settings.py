"""The internal manager's settings: from the options of ``softib up``, a file of OpenSM's options, and the fabric's file.

The files are read again on ``softib sm reload`` and SIGHUP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.input_files import read_text
from softib.sm.config import SmConfig, config_of
from softib.sm.options.fabric_yaml import ROUTE_KEYS, check_engine_keys, check_keys, settings_of
from softib.sm.options.file import read_options
from softib.sm.options.left_out import left_out

__all__ = ["ManagerSettings"]

SWEEP_INTERVAL_PS = 10 * 10**12
"""How often switches are asked for changes (OpenSM's sweep_interval)."""


@dataclass(frozen=True)
class ManagerSettings:
    """``given``: fields of :class:`SmConfig` that the command line fixes, and names of GUID files under OpenSM's names.
    ``options``: path of OpenSM's options file; ``partitions``: of partitions.conf (else what the options name, else the fabric's).
    ``fallback``: the ``sm:`` section of the fabric's own file."""

    given: dict[str, Any] = field(default_factory=dict)
    options: str | None = None
    partitions: str | None = None
    fallback: dict[str, Any] = field(default_factory=dict)
    note: Callable[[str], None] = lambda text: None

    def read(self) -> SmConfig:
        """The manager's settings as the files say now. Raises :class:`~softib.errors.SoftibError` with one line where one
        cannot be read or says what is not possible, or what would have no effect."""
        check_keys(self.fallback)
        check_engine_keys(self.fallback)
        found: dict[str, Any] = {}
        if self.options is not None:
            found, unused = read_options(
                read_text(self.options, "file of OpenSM's options", errors="replace"), self.options
            )
            for name in dict.fromkeys(unused):
                self.note(f"{self.options}: {left_out(name)}")
        if (
            not {**self.fallback, **self.given}.get("torus_config")
            and not Path(found.get("torus_config", "/")).is_file()
        ):
            found.pop("torus_config", None)  # OpenSM's file names one whether it is there or not
        files = {k: v for k, v in (self.fallback | found | self.given).items() if k in ROUTE_KEYS}
        named = found.pop("partition_config_file", None)
        if named and not self.partitions and not Path(named).exists():
            self.note(
                f"{self.options}: partition_config_file: no file {named}; everybody is a full member, as with OpenSM"
            )
            named = None
        path = self.partitions or named or self.fallback.get("partitions")
        section = {**self.fallback, **files, "partitions": path}
        policy = found.pop("qos_policy_file", None)
        if policy and found.get("qos", section.get("qos")):
            if Path(policy).is_file():
                section |= {"qos": True, "qos_policy_file": policy}
            else:  # OpenSM's file names one whether it is there or not
                self.note(f"{self.options}: qos_policy_file: no file {policy}; paths get no QoS level")
        routes = found.pop("prefix_routes_file", None)
        if routes and Path(routes).is_file():  # likewise; without one, routers say where they lead
            section["prefix_routes_file"] = routes
        first = settings_of(section)
        fields = {"sweep_interval_ps": SWEEP_INTERVAL_PS} | first | found | self.given
        return config_of({k: v for k, v in fields.items() if k not in ROUTE_KEYS})
