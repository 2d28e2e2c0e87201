"""A wire that carries Gets alone (``softib sm run --dry-run``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.live.umad_sm.wire import MadWire
from softib.mad.batch import MadBatch
from softib.sm.dry_run import DryRun

__all__ = ["DryWire"]


@dataclass
class DryWire:
    """``wire``, to which no Set gets."""

    wire: MadWire
    dry: DryRun = field(default_factory=DryRun)

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        """As :class:`~softib.live.umad_sm.wire.MadWire`."""
        return self.dry.back(self.wire.exchange(None if outbox is None else self.dry.out(outbox)))

    def wait(self, timeout_s: float) -> bool:
        """As :class:`~softib.live.umad_sm.wire.MadWire`."""
        return self.wire.wait(timeout_s)
