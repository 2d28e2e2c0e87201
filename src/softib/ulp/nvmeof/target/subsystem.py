"""A subsystem: its namespaces, its ports with their asymmetric access states, and the pages that describe them.
This module does no I/O, except for the files of the namespaces."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.foreign_text import shown
from softib.ulp.nvmeof.codes import DISCOVERY_NQN, AnaState, Cns, Status
from softib.ulp.nvmeof.structures import (
    ANA_GROUP,
    ANA_HEADER,
    CONTROLLER,
    DISCOVERY_ENTRY,
    DISCOVERY_HEADER,
    NAMESPACE,
    one,
)
from softib.ulp.nvmeof.target.queue_layout import IN_CAPSULE_SIZE, MAX_DATA, MAX_ENTRIES

__all__ = ["ADMIN_ENTRIES", "DEFAULT_NQN", "Namespace", "Subsystem", "TargetPort"]

DEFAULT_NQN = "nqn.2026-11.softib:target"
LONGEST_NQN = 223
BLOCK_SHIFT = 12
"""log2 of the block size. Blocks have 4,096 bytes, or 512 bytes if the size of the file is not a multiple of 4,096."""
ADMIN_ENTRIES = 32
VERSION = 0x0001_0400
MODEL, FIRMWARE = b"softib".ljust(40), b"1".ljust(8)
KEEP_ALIVE_UNITS = 10
"""Granularity of the keep-alive time in units of 100 ms."""
AER_LIMIT = 4
OAES_NAMESPACE, OAES_ANA = 1 << 8, 1 << 11
ONCS_COMPARE, ONCS_WRITE_ZEROES = 1 << 0, 1 << 3
ANA_SHARED, MULTIPLE = 1 << 3, 0b11
"""Bits of CMIC: asymmetric namespace access is supported; the subsystem may have several ports and several
controllers."""
SGLS = 1 << 0 | 1 << 2 | 1 << 20
"""Bits of SGLS: SGLs, keyed SGLs, and offsets as addresses (data in the capsule) are supported."""
DEALLOCATED_READS_ZERO, WRITE_ZEROES_DEALLOCATES = 0b001, 1 << 3
ANA_GROUP_ID = 1


@dataclass
class Namespace:
    """A file (or block device) as a namespace."""

    path: Path
    fd: int
    blocks: int
    shift: int
    writable: bool
    identity: tuple[int, int]
    refuse: int = 0

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> Namespace:
        """Open ``path``, read-only if it cannot be written. Raises :class:`InputError`."""
        where = Path(path)
        try:
            try:
                fd, writable = os.open(where, os.O_RDWR | os.O_CLOEXEC), True
            except PermissionError:
                fd, writable = os.open(where, os.O_RDONLY | os.O_CLOEXEC), False
            kind = os.fstat(fd)
            size = os.lseek(fd, 0, os.SEEK_END)
        except OSError as error:
            raise InputError(
                f"{shown(str(where))}: {error.strerror}; make a disk image with 'truncate -s 1G FILE'"
            ) from None
        if not (stat.S_ISREG(kind.st_mode) or stat.S_ISBLK(kind.st_mode)):
            os.close(fd)
            raise InputError(f"{shown(str(where))} is neither a file nor a block device")
        shift = BLOCK_SHIFT if size % (1 << BLOCK_SHIFT) == 0 else 9
        if size == 0 or size % 512:
            os.close(fd)
            raise InputError(
                f"{shown(str(where))} has {size:,} bytes; a disk image has a multiple of 512: 'truncate -s 1G FILE'"
            )
        return cls(where, fd, size >> shift, shift, writable, (kind.st_dev, kind.st_ino))

    def look(self) -> str | None:
        """Check the file, and refuse commands while it is missing or too short; return changes as text."""
        before = self.refuse
        try:
            there = os.stat(self.path)
            removed = (there.st_dev, there.st_ino) != self.identity
            size = os.lseek(self.fd, 0, os.SEEK_END)
        except OSError:
            removed, size = True, 0
        self.refuse = Status.NAMESPACE_NOT_READY if removed or size < self.blocks << self.shift else 0
        if self.refuse == before:
            return None
        name = shown(str(self.path))
        if not self.refuse:
            return f"{name} is back; its commands succeed again"
        if removed:
            return (
                f"{name} was removed or replaced; its commands fail until that file is back (restart to export another)"
            )
        return f"{name} became shorter; its commands fail until it has its size again"


@dataclass
class TargetPort:
    """An address of the subsystem, with the access state of the namespaces on this port."""

    number: int
    address: str
    state: AnaState = AnaState.OPTIMIZED


@dataclass
class Subsystem:
    """A subsystem and its discovery subsystem."""

    nqn: str
    namespaces: list[Namespace]
    ports: list[TargetPort]
    service: int
    columns: dict[str, np.ndarray] = field(init=False)
    changes: int = 0
    """Number of changes of asymmetric access states so far."""

    def __post_init__(self) -> None:
        if not self.nqn.startswith("nqn.") or len(self.nqn.encode()) > LONGEST_NQN:
            raise InputError(f"{shown(self.nqn)!r} is not an NQN; use for example {DEFAULT_NQN}")
        rows = [(0, 0, 0, 0, 0)] + [(n.fd, n.blocks, n.shift, n.refuse, n.writable) for n in self.namespaces]
        self.columns = {
            name: np.array(column, np.int64)
            for name, column in zip(
                ("fd", "blocks", "shift", "refuse", "writable"), zip(*rows, strict=True), strict=True
            )
        }
        self._states = {port.number: self._state_column(port) for port in self.ports}
        digest = hashlib.sha256(self.nqn.encode() + b"".join(str(n.path.absolute()).encode() for n in self.namespaces))
        self.serial = digest.hexdigest()[:20].encode()
        self._digest = digest.digest()

    def _state_column(self, port: TargetPort) -> np.ndarray:
        return np.full(len(self.namespaces) + 1, int(port.state), np.int64)

    def shared_columns(self, port: TargetPort) -> dict[str, Any]:
        """Return the columns with one row per namespace for queues on ``port``. They are updated when access states
        change."""
        return {**self.columns, "state": self._states[port.number]}

    def port_at(self, address: str) -> TargetPort | None:
        """Return the port with this address."""
        return next((port for port in self.ports if port.address == address), None)

    def set_state(self, number: int, state: AnaState) -> None:
        """Change the asymmetric access state of all namespaces on a port. Raises
        :class:`InputError`."""
        port = next((p for p in self.ports if p.number == number), None)
        if port is None:
            raise InputError(f"port {number} does not exist; there are {', '.join(str(p.number) for p in self.ports)}")
        port.state = state
        self._states[number][:] = int(state)
        self.changes += 1

    def look(self) -> list[str]:
        """Check the file of every namespace; return changes as text."""
        changes = [text for n in self.namespaces if (text := n.look()) is not None]
        self.columns["refuse"][1:] = [n.refuse for n in self.namespaces]
        return changes

    def close(self) -> None:
        """Close the files."""
        for namespace in self.namespaces:
            os.close(namespace.fd)

    # -- pages --

    def identify(self, cns: int, nsid: int, cntlid: int, discovery: bool) -> tuple[int, bytes]:
        """Execute Identify: return a status and the page."""
        if cns == Cns.CONTROLLER:
            return Status.SUCCESS, self._controller(cntlid, discovery).tobytes()
        if discovery:
            return Status.INVALID_FIELD, b""
        if cns == Cns.ACTIVE_NAMESPACES:
            if nsid >= 0xFFFFFFFE:
                return Status.INVALID_NAMESPACE, b""
            following = [i for i in range(1, len(self.namespaces) + 1) if i > nsid][:1024]
            return Status.SUCCESS, np.array(following, "<u4").tobytes().ljust(4096, b"\0")
        if cns not in (Cns.NAMESPACE, Cns.DESCRIPTORS):
            return Status.INVALID_FIELD, b""
        if nsid == 0xFFFFFFFF or not 0 < nsid <= len(self.namespaces):
            return Status.INVALID_NAMESPACE, b""
        if cns == Cns.NAMESPACE:
            return Status.SUCCESS, self._namespace(nsid).tobytes()
        nguid, uuid = self._nguid(nsid), self._uuid(nsid)
        descriptors = bytes([2, 16, 0, 0]) + nguid + bytes([3, 16, 0, 0]) + uuid
        return Status.SUCCESS, descriptors.ljust(4096, b"\0")

    def _nguid(self, nsid: int) -> bytes:
        return self._digest[:12] + nsid.to_bytes(4, "big")

    def _uuid(self, nsid: int) -> bytes:
        """Return the UUID (version 8, RFC 9562) of a namespace, derived from the subsystem and the namespace's
        number."""
        octets = bytearray(hashlib.sha256(self._digest + nsid.to_bytes(4, "big")).digest()[:16])
        octets[6], octets[8] = octets[6] & 0x0F | 0x80, octets[8] & 0x3F | 0x80
        return bytes(octets)

    def _controller(self, cntlid: int, discovery: bool) -> np.ndarray:
        page = one(
            CONTROLLER,
            serial=self.serial,
            model=MODEL,
            firmware=FIRMWARE,
            mdts=(MAX_DATA >> 12).bit_length() - 1,
            cntlid=cntlid,
            ver=VERSION,
            cntrltype=2 if discovery else 1,
            aerl=AER_LIMIT - 1,
            lpa=1 << 2,  # Get Log Page supports an offset
            kas=KEEP_ALIVE_UNITS,
            maxcmd=ADMIN_ENTRIES if discovery else MAX_ENTRIES,
            sgls=SGLS,
            subnqn=(DISCOVERY_NQN if discovery else self.nqn).encode(),
            msdbd=1,
        )
        if discovery:
            return page
        values = {
            "cmic": MULTIPLE | ANA_SHARED,
            "oaes": OAES_NAMESPACE | OAES_ANA,
            "acl": 3,
            "frmw": 0b11,  # one slot, read only
            "anatt": 10,
            "anacap": 0b1_1111,  # every state is reported
            "anagrpmax": ANA_GROUP_ID,
            "nanagrpid": ANA_GROUP_ID,
            "sqes": 0x66,
            "cqes": 0x44,
            "nn": len(self.namespaces),
            "mnan": len(self.namespaces),
            "oncs": ONCS_COMPARE | ONCS_WRITE_ZEROES,
            "vwc": 0b101,  # a write cache, flushed by namespace
            "ioccsz": (64 + IN_CAPSULE_SIZE) // 16,
            "iorcsz": 1,
        }
        for name, value in values.items():
            page[name] = value
        return page

    def _namespace(self, nsid: int) -> np.ndarray:
        n = self.namespaces[nsid - 1]
        return one(
            NAMESPACE,
            nsze=n.blocks,
            ncap=n.blocks,
            nuse=n.blocks,
            nmic=1,
            dlfeat=DEALLOCATED_READS_ZERO | WRITE_ZEROES_DEALLOCATES,
            anagrpid=ANA_GROUP_ID,
            nsattr=0 if n.writable else 1,
            nguid=np.void(self._nguid(nsid)),
            lbads=n.shift,
        )

    def ana_page(self, port: TargetPort, groups_only: bool) -> bytes:
        """Return the log page of asymmetric namespace access for ``port``."""
        nsids = [] if groups_only else list(range(1, len(self.namespaces) + 1))
        group = one(ANA_GROUP, group=ANA_GROUP_ID, namespaces=len(nsids), chgcnt=self.changes, state=int(port.state))
        head = one(ANA_HEADER, chgcnt=self.changes, groups=1)
        return head.tobytes() + group.tobytes() + np.array(nsids, "<u4").tobytes()

    def discovery_page(self) -> bytes:
        """Return the discovery log page, with one entry per port."""
        entries = np.zeros(len(self.ports), DISCOVERY_ENTRY)
        for entry, port in zip(entries, self.ports, strict=True):
            entry["trtype"], entry["adrfam"], entry["subtype"] = 1, 1, 2
            entry["treq"] = 0b10  # a secure channel is not required
            entry["portid"], entry["cntlid"], entry["asqsz"] = port.number, 0xFFFF, ADMIN_ENTRIES
            entry["trsvcid"], entry["traddr"] = str(self.service).encode(), port.address.encode()
            entry["subnqn"] = self.nqn.encode()
            entry["qptype"], entry["prtype"], entry["cms"] = 1, 2, 1  # RC, InfiniBand, RDMA_CM
        return one(DISCOVERY_HEADER, genctr=1, numrec=len(self.ports)).tobytes() + entries.tobytes()
