"""Opens a SOURCE from which rounds are read: a running fabric by name, or ``umad:DEVICE``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.errors import InputError
from softib.iba.constants import MgmtClass
from softib.live.umad_client.wire import MadWire, keyed
from softib.monitor.sharding.shard import Shard, shard_memory

if TYPE_CHECKING:
    from softib.live.instances import Instance

__all__ = ["PREFIX", "Opened", "is_live", "memory_of", "open_source"]

PREFIX = "umad:"


@dataclass
class Opened:
    """An open connection to a subnet. ``status`` reads the status from the daemon of a running fabric (None: there is
    no daemon). ``memory``: file with the memory of the source's exporter (None: no file). ``other_subnets``: subnets of
    the fabric that the connection does not reach ("": none). ``shard``: the part of the subnet to read (None: all of
    it); ``shared``: the file in which shards on this machine share discoveries."""

    wire: MadWire
    name: str
    status: Callable[[], dict[str, Any]] | None
    close: Callable[[], None]
    memory: Path | None = None
    other_subnets: str = ""
    shard: Shard | None = None
    shared: Path | None = None


def memory_of(source: str) -> Path:
    """Return the file of the memory of the exporter of ``source``. For a running fabric, the file
    is removed with the fabric; for hardware, it is in ``$STATE_DIRECTORY``,
    ``$XDG_STATE_HOME/softib`` or ``~/.local/state/softib``.

    Raises :class:`InputError` for other sources."""
    if source.startswith(PREFIX):
        state = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
        folder = (
            Path(state)
            if state
            else Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "softib"
        )
        return folder / f"seen-{source.removeprefix(PREFIX).replace('/', '-') or 'default'}.json"
    instance = _instance(source)
    if instance is None:
        raise InputError(
            f"{source}: no running fabric has this name; use a fabric that 'softib status' lists, or umad:DEVICE"
        )
    return instance.folder / "seen_ports.json"


def is_live(source: str) -> bool:
    """Return whether rounds can be read from ``source``."""
    return source.startswith(PREFIX) or _instance(source) is not None


def open_source(source: str | Shard, mkey: int | None = None) -> Opened:
    """Open ``umad:DEVICE`` or the running fabric ``source``, or a shard of it. ``mkey``: see
    :func:`~softib.live.umad_client.wire.keyed`. Raises :class:`InputError` for other sources, :class:`PeerError` if the
    daemon does not answer.
    """
    opened = _open(source)
    try:
        return replace(opened, wire=keyed(opened.wire, mkey))
    except InputError:
        opened.close()
        raise


def _open(source: str | Shard) -> Opened:
    if isinstance(source, Shard):
        opened = _open(source.source)
        assert opened.memory is not None
        memory = opened.memory
        return replace(opened, shard=source, memory=shard_memory(memory, source), shared=memory.with_suffix(".npz"))
    from softib.live.umad_client.abi import ASKS

    classes = {**ASKS, **dict.fromkeys((int(MgmtClass.PERF), int(MgmtClass.VENDOR_MLNX), int(MgmtClass.SUBN_ADM)), 0)}
    if source.startswith(PREFIX):
        from softib.live.umad_client.devices import find_device
        from softib.live.umad_client.port import UmadPort

        port = UmadPort(find_device(source.removeprefix(PREFIX) or None), classes)
        return Opened(port, source, None, port.close, memory_of(source))
    memory = memory_of(source)
    instance = _instance(source)
    assert instance is not None
    from softib.live.control import ask
    from softib.live.umad_client.fabric_port import FabricPort, other_subnets

    fabric_port = FabricPort(instance, None, classes)
    return Opened(
        fabric_port, source, lambda: ask(instance, "status"), fabric_port.close, memory, other_subnets(instance)
    )


def _instance(source: str) -> Instance | None:
    from softib.live.instances import running

    try:
        return next((s for s in running() if s.name == source), None)
    except InputError:
        return None
