"""The file through which the exporters of all shards on one machine share a discovery."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from softib.live.subnet_reader import read_nodes
from softib.live.umad_client.wire import MadWire
from softib.monitor.seen_ports import locked
from softib.sm.config import SmConfig
from softib.sm.database import Database

__all__ = ["Discovered", "latest_discovery"]


@dataclass
class Discovered:
    """The result of a discovery: nodes, ports and cables (``db``), the rows of the ports with a subnet manager, and the
    time at which the discovery began, in seconds since 1970."""

    db: Database
    managers: list[int]
    problems: list[str] = field(default_factory=list)
    began_s: float = 0.0


def latest_discovery(wire: MadWire, config: SmConfig, file: Path | None, since_s: float) -> Discovered:
    """Return the discovery in ``file`` if it began after ``since_s``; otherwise a new one, which is
    written to the file for the other shards (None: no file)."""
    with locked(file):
        stored = None if file is None else _stored(file)
        if stored is not None and since_s <= stored.began_s <= time.time():
            return stored
        began_s = time.time()
        subnet = read_nodes(wire, config)
        discovery = Discovered(subnet.db, sorted(subnet.others), list(subnet.report.problems), began_s)
        if file is not None and subnet.db.sm_port >= 0:
            _store(file, discovery)
        return discovery


def _store(file: Path, discovery: Discovered) -> None:
    """Write the discovery to the file. If this fails, each shard runs a discovery of its own."""
    columns = {
        **discovery.db.columns(),
        "began_s": np.array(discovery.began_s),
        "sm_port": np.array(discovery.db.sm_port),
        "managers": np.array(discovery.managers, np.int64),
        "problems": np.array(discovery.problems, str),
    }
    part = file.with_name(file.name + ".part")
    try:
        with part.open("wb") as out:
            np.savez(out, allow_pickle=False, **columns)
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)


def _stored(file: Path) -> Discovered | None:
    try:
        with np.load(file, allow_pickle=False) as columns:
            arrays = dict(columns)
        began_s, sm_port = float(arrays.pop("began_s")), int(arrays.pop("sm_port"))
        managers, problems = arrays.pop("managers").tolist(), arrays.pop("problems").tolist()
        return Discovered(Database.of_columns(arrays, sm_port), managers, problems, began_s)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
