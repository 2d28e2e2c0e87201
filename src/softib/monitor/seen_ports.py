"""The ports and cables that an exporter has seen. A port or cable that is down is remembered until it comes back, is
moved, or is removed.

A discovery finds only answering devices, so it does not contain a dead switch. This memory is kept
in a file of the exporter, so that a restart does not lose it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.errors import InputError, UnknownName, os_reason
from softib.input_files import json_document
from softib.monitor.exporter.labels import hca_name, port_guids
from softib.monitor.reading import Reading
from softib.monitor.sharding.shard import Shard, shard_memories

__all__ = ["SeenPort", "SeenPorts", "forget", "locked", "names_cable", "stamp_of", "write_whole"]

DOWN = 1
"""PortInfo.PortState."""
COMMON = 0.5
"""A file belongs to another fabric if less than this share of the smaller fabric's devices are in both."""
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SeenPort:
    """One end of a cable: ``key`` is (NodeGUID, portnum), ``peer`` the key of the other end,
    ``down_since`` seconds since 1970 (None: the link is up)."""

    key: Key
    node: str
    switch: bool
    port_guid: str
    peer: Key | None
    down_since: float | None = None

    @property
    def place(self) -> str:
        """The name of the port, for example ``leaf-1[3]``."""
        return f"{self.node}[{self.key[1]}]"


class SeenPorts:
    """Ports by key in :attr:`ports`, stored in ``path`` (None: only in memory). Ports that are down for ``keep_s``
    seconds are removed (0: never)."""

    def __init__(
        self,
        path: Path | None = None,
        keep_s: float = 0.0,
        notice: Callable[[str], None] = lambda line: None,
        shard: Shard | None = None,
    ):
        self.path, self.keep_s, self.notice, self.shard = path, keep_s, notice, shard
        self.ports: dict[Key, SeenPort] = {}
        self.up: set[int] = set()
        """NodeGUIDs of the devices that answered in one of the last two rounds. One round is not enough, because a
        device that becomes unreachable during a round still answers part of it."""
        self._silent = np.zeros(0, np.uint64)
        self._expected: dict[Key, SeenPort] = {}
        self._shape: tuple[object, bytes, bytes] | None = None
        self._stamp: tuple[int, int] | None = None
        self._unkept = False

    def step(
        self,
        ports: ObservedPorts,
        reading: Reading,
        silent: np.ndarray,
        now_s: float,
        fell: np.ndarray | None = None,
    ) -> bool:
        """Add one round; return whether anything changed. ``silent``: NodeGUIDs of devices that did not answer;
        ``fell``: ports that counted LinkDowned since the previous round (bool[n]). If a link is down and has failed
        since the previous round, it counts as down only from the next round on."""
        quiet = np.isin(ports.node_guid, silent[np.isin(silent, self._silent)])
        self._silent = silent
        state = reading.level.get("state", np.full(len(reading), np.nan))
        unread = np.where(quiet, 0.0, DOWN + 1.0)
        says = np.where(reading.answered & ~np.isnan(state), state, unread)
        # PortState of each end; 0 if the end's device does not answer.
        other = np.where(ports.peer >= 0, says[np.maximum(ports.peer, 0)], 0.0)
        linked = np.where(says > 0, says, other) > DOWN
        if fell is not None and fell.any():
            linked |= fell | (fell[np.maximum(ports.peer, 0)] & (ports.peer >= 0))
        shape = (ports, linked.tobytes(), quiet.tobytes())
        same = self._shape is not None and shape[0] is self._shape[0] and shape[1:] == self._shape[1:]
        if same and stamp_of(self.path) == self._stamp and not self._due(now_s):
            return False
        self._shape = shape
        self.up = set(ports.node_guid[~quiet].tolist())
        with locked(self.path):
            before = self._before(set(ports.node_guid.tolist()))
            self.ports = _merged(before, _of(ports), linked.tolist(), now_s)
            if self.keep_s:
                self.ports = {k: p for k, p in self.ports.items() if not self._over(p, now_s)}
            if self.ports != before or self._stamp is None:
                self._save()
        return True

    def expect(self, ports: ObservedPorts) -> None:
        """Add these ports to the known ones in the next round; for a shard, add only its ports and the far ends of
        their cables."""
        kept = np.ones(len(ports), bool) if self.shard is None else self.shard.holds(ports.node_guid)
        kept |= (ports.peer >= 0) & kept[ports.peer]
        self._expected = {p.key: replace(p, down_since=None) for p, k in zip(_of(ports), kept, strict=True) if k}
        self._shape = None

    def down(self) -> list[SeenPort]:
        """Return the ports whose link or device is down."""
        return [p for p in self.ports.values() if p.down_since is not None]

    def of_shard(self, ports: Iterable[SeenPort]) -> list[SeenPort]:
        """Return those of ``ports`` whose device belongs to the shard. (The others are the far ends of cables.)"""
        listed = list(ports)
        if self.shard is None:
            return listed
        held = self.shard.holds(np.array([p.key[0] for p in listed], np.uint64))
        return [p for p, h in zip(listed, held.tolist(), strict=True) if h]

    def _over(self, port: SeenPort, now_s: float) -> bool:
        return port.down_since is not None and now_s - port.down_since > self.keep_s

    def _due(self, now_s: float) -> bool:
        return self.keep_s > 0 and any(self._over(p, now_s) for p in self.down())

    # -- the file --

    def _before(self, present: set[int]) -> dict[Key, SeenPort]:
        """Return the previous state with the expected ports added. It is read from the file if another process has
        written the file since."""
        if self.path is None or stamp_of(self.path) == self._stamp:
            before = self.ports
        else:
            first = self._stamp is None and not self.ports
            before = _load(self.path, self.notice)
            devices = {guid for guid, _ in before}
            if first and before and len(devices & present) < COMMON * min(len(devices), len(present)):
                self.notice(f"{self.path}: the memory of the exporter is of another fabric and is discarded")
                before = {}
        expected, self._expected = self._expected, {}
        return {**expected, **before}

    def _save(self) -> None:
        if self.path is None:
            return
        try:
            _write(self.path, self.ports)
        except OSError as error:
            if not self._unkept:
                self.notice(f"{self.path}: cannot be written ({os_reason(error)}); a restart loses its content")
            self._unkept = True
        else:
            self._unkept = False
        self._stamp = stamp_of(self.path)


def names_cable(port: SeenPort, other: SeenPort) -> bool:
    """Return whether the cable between ``port`` and ``other`` is named after ``port``. It is named after the switch,
    because a switch keeps its counters when a host restarts; if both nodes have the same type, it is named after the
    port with the lower GUID."""
    return (not port.switch, port.key) < (not other.switch, other.key)


def forget(memory: Path, names: Sequence[str]) -> list[SeenPort]:
    """Remove ports that are down from ``memory`` and the memories of its shards, and return them: all such ports, or
    those that ``names`` names (``leaf-1``, ``leaf-1[3]``, a GUID) and the other ends of their cables. Raises
    :class:`UnknownName` for names that are not down."""
    present = [p for p in shard_memories(memory) if p.exists()]
    if not present:
        raise InputError(f"{memory} does not exist: the exporter has not run; start 'softib exporter' first")
    with contextlib.ExitStack() as locks:
        for path in present:
            locks.enter_context(locked(path))
        memories = {path: _load(path, lambda line: None) for path in present}
        down = {k: p for ports in memories.values() for k, p in ports.items() if p.down_since is not None}
        wanted: set[Key] = set() if names else set(down)
        for name in names:
            keys = {
                k for k, p in down.items() if name in (p.node, hca_name(p.node), p.place, f"{k[0]:#018x}", p.port_guid)
            }
            if not keys:
                raise UnknownName(
                    "device or port that is down", name, sorted({n for p in down.values() for n in (p.node, p.place)})
                )
            wanted |= keys
        wanted |= {p.peer for k, p in down.items() if k in wanted and p.peer in down}
        for path, ports in memories.items():
            try:
                _write(path, {k: p for k, p in ports.items() if k not in wanted})
            except OSError as error:
                raise InputError(f"{path}: cannot be written: {os_reason(error)}") from None
    return [down[k] for k in sorted(wanted)]


def _of(ports: ObservedPorts) -> list[SeenPort]:
    guids, numbers = ports.node_guid.tolist(), ports.portnum.tolist()
    keys = list(zip(guids, numbers, strict=True))
    peers = [keys[p] if p >= 0 else None for p in ports.peer.tolist()]
    rows = zip(keys, ports.node, ports.switch.tolist(), port_guids(ports), peers, strict=True)
    return [SeenPort(*row) for row in rows]


def _merged(
    before: Mapping[Key, SeenPort], now: list[SeenPort], linked: list[bool], now_s: float
) -> dict[Key, SeenPort]:
    """Return the ports that were seen before together with the present ones. An earlier port of a present device is
    left out if its cable is now plugged into another port."""
    before = _renamed(before, now)
    merged: dict[Key, SeenPort] = {}
    present = {p.key[0] for p in now}
    leads = {p.key: p.peer for p, up in zip(now, linked, strict=True) if up and p.peer is not None}
    for port, up in zip(now, linked, strict=True):
        old = before.get(port.key)
        if port.peer is None and old is not None and leads.get(old.peer or port.key, port.key) == port.key:
            port = replace(port, peer=old.peer)
        since = None if up else (old.down_since if old is not None else None) or now_s
        merged[port.key] = replace(port, down_since=since)
    for key, old in before.items():
        moved = key[0] in present and old.peer is not None and leads.get(old.peer, key) != key
        if key not in merged and not moved:
            merged[key] = replace(old, down_since=old.down_since or now_s)
    return merged


def _renamed(before: Mapping[Key, SeenPort], now: list[SeenPort]) -> Mapping[Key, SeenPort]:
    """Return ``before`` with the present GUIDs of devices: a device has another GUID if its board was replaced, or if
    the plan states no GUIDs. It is recognised by its name, if this was unique and still is."""
    present = {p.key[0]: p.node for p in now}
    absent = {p.key[0]: p.node for p in before.values() if p.key[0] not in present}
    if not absent:
        return before
    new: dict[int, int] = {}
    for form in (str, hca_name):
        often = Counter(form(n) for n in present.values())
        absent_often = Counter(form(n) for n in absent.values())
        by_name = {form(n): g for g, n in present.items() if often[form(n)] == 1}
        new |= {
            g: by_name[form(n)]
            for g, n in absent.items()
            if g not in new and absent_often[form(n)] == 1 and form(n) in by_name
        }
    if not new:
        return before
    labels = {p.key[0]: p.port_guid for p in now}

    def key_of(key: Key) -> Key:
        return new.get(key[0], key[0]), key[1]

    return {
        key_of(k): p
        if k[0] not in new and (p.peer is None or p.peer[0] not in new)
        else replace(
            p,
            key=key_of(k),
            peer=None if p.peer is None else key_of(p.peer),
            port_guid=labels[new[k[0]]] if k[0] in new else p.port_guid,
        )
        for k, p in before.items()
    }


def _write(path: Path, ports: Mapping[Key, SeenPort]) -> None:
    write_whole(
        path, json.dumps([(*p.key, p.node, p.switch, p.port_guid, p.peer, p.down_since) for p in ports.values()])
    )


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` so that the file is always either complete or absent. Raises :class:`OSError`."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    os.replace(part, path)


def _load(path: Path, notice: Callable[[str], None]) -> dict[Key, SeenPort]:
    if not path.exists():
        return {}
    try:
        ports = (
            SeenPort(
                (int(guid), int(number)),
                str(node),
                bool(switch),
                str(label),
                (int(peer[0]), int(peer[1])) if peer else None,
                since,
            )
            for guid, number, node, switch, label, peer, since in json_document(
                path, "memory of an exporter", "remove it"
            )
        )
        return {p.key: p for p in ports}
    except (InputError, OSError, ValueError, TypeError, IndexError):
        notice(f"{path}: cannot be read; the exporter starts with an empty memory")
        return {}


def stamp_of(path: Path | None) -> tuple[int, int] | None:
    """Return a value that changes with each write of the file; None if there is no file."""
    if path is None:
        return None
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns


@contextlib.contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Prevent other processes from writing during the block; if the directory cannot be written, a later :func:`_write`
    reports it."""
    lock: Iterable[int] = ()
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600),)
    try:
        for fd in lock:
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        for fd in lock:
            os.close(fd)
