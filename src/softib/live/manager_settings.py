"""What ``softib up`` was told of the internal manager: from its options, a file of OpenSM's options, and the fabric's own.

The files are read again when the manager is told to (``softib sm reload``, SIGHUP).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import UnreadableFile
from softib.sm.config import SmConfig
from softib.sm.options import read_options
from softib.sm.partitions import parse_partitions

__all__ = ["ManagerSettings"]

SWEEP_INTERVAL_PS = 10 * 10**12
"""How often switches are asked for changes (OpenSM's sweep_interval)."""


@dataclass(frozen=True)
class ManagerSettings:
    """``given``: fields of :class:`SmConfig` that the command line fixes. ``options``: path of OpenSM's options file;
    ``partitions``: of partitions.conf (else what the options name, else ``fallback["partitions"]``). ``fallback``: what the fabric's
    own file says (``engine``, ``partitions``)."""

    given: dict[str, Any] = field(default_factory=dict)
    options: str | None = None
    partitions: str | None = None
    fallback: dict[str, Any] = field(default_factory=dict)
    note: Callable[[str], None] = lambda text: None

    def read(self) -> SmConfig:
        """The manager's settings as the files say now. Raises :class:`~softib.errors.SoftibError` with one line where one
        cannot be read or says what is not possible."""
        told: dict[str, Any] = {"sweep_interval_ps": SWEEP_INTERVAL_PS}
        if self.fallback.get("engine"):
            told["engine"] = self.fallback["engine"]
        if self.options is not None:
            found, unused = read_options(_text(self.options), self.options)
            told |= found
            if unused:
                shown = ", ".join(unused[:8]) + (f" and {len(unused) - 8} more" if len(unused) > 8 else "")
                self.note(f"{self.options}: not used here: {shown}")
        path = self.partitions or told.pop("partition_config_file", None) or self.fallback.get("partitions")
        told.pop("partition_config_file", None)
        if path:
            told["partitions"] = tuple(parse_partitions(_text(path), path))
        return SmConfig(**(told | self.given))


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from None
