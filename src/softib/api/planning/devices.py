"""The catalogue of devices."""

from __future__ import annotations

from softib.api.arguments import Suggests
from softib.api.table import Table
from softib.plan.device_records import Device, DeviceCatalogue, rows_of
from softib.result import columns

__all__ = ["Devices", "devices"]


class Devices(Suggests, DeviceCatalogue):
    """The devices that reports, checks, simulation and planning read, and the numbers of their figures."""

    def table(self) -> Table:
        """Return one row per device, without its figures."""
        return Table(columns(self.devices, Device))

    def print(self) -> None:
        """Print the text of ``softib plan devices``."""
        from softib.render.planning import print_devices
        from softib.render.terminal import console

        print_devices(self, console())


def devices(name: str | None = None) -> Devices:
    """Return the whole catalogue, or only its device ``name``. Raises :class:`UnknownName`.

    >>> import softib
    >>> quantum = softib.devices("Quantum-2").devices[0]
    >>> quantum.kind, next(f.value for f in quantum.figures if f.figure == "radix")
    ('switch', 64)
    """
    return Devices(rows_of(name))
