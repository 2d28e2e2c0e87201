"""A namespace as a network block device on a Unix socket, for programs that speak NBD: fio, qemu-nbd,
nbdcopy (the protocol: doc/proto.md of nbd)."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from softib.errors import InputError, PeerError, SoftibError, os_reason
from softib.foreign_text import shown
from softib.ulp.nvmeof.codes import Status
from softib.ulp.nvmeof.host.command_queue import CommandError
from softib.ulp.nvmeof.host.disk import Disk

__all__ = ["NbdServer"]

MAGIC, OPTION_MAGIC, REPLY_MAGIC = b"NBDMAGIC", b"IHAVEOPT", 0x3E889045565A9
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_INFO, OPT_GO = 1, 2, 3, 6, 7
REP_ACK, REP_SERVER, REP_INFO, REP_UNSUPPORTED, REP_INVALID = 1, 2, 3, 0x80000001, 0x80000003
INFO_EXPORT, INFO_BLOCK_SIZE = 0, 3
HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_ZEROES, CAN_MULTI = 1, 2, 4, 8, 32, 64, 256
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA, NO_HOLE = 1, 2
REQUEST, REQUEST_MAGIC, SIMPLE_REPLY = struct.Struct(">IHHQQI"), 0x25609513, 0x67446698
EPERM, EIO, EINVAL, ENOSPC = 1, 5, 22, 28
LONGEST_OPTION, LONGEST = 1 << 16, 32 << 20
ERRORS = {Status.WRITE_PROTECTED: EPERM, Status.CAPACITY_EXCEEDED: ENOSPC, Status.LBA_OUT_OF_RANGE: EINVAL}


class NbdServer:
    """Serves ``disk`` on the Unix socket ``path``. Raises :class:`InputError` if the socket cannot be
    created."""

    def __init__(self, disk: Disk, path: str | os.PathLike[str], notice: Callable[[str], None]):
        self.disk, self.path, self._notice = disk, Path(path), notice
        self._one = threading.Lock()
        """Serializes the requests of all clients, since the disk has one queue."""
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            if self.path.is_socket() and not _answers(self.path):
                self.path.unlink()
            self._socket.bind(str(self.path))
        except OSError as error:
            self._socket.close()
            raise InputError(f"{shown(str(path))}: {os_reason(error)}; use another --socket") from None
        self._socket.listen(16)

    def serve(self, until: Callable[[], bool]) -> None:
        """Serve each client in a thread, until ``until()`` returns true."""
        self._socket.settimeout(0.5)
        while not until():
            with contextlib.suppress(TimeoutError):
                client, _ = self._socket.accept()
                client.settimeout(None)
                threading.Thread(target=self._client, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def _client(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, EOFError):
            if self._handshake(client):
                while self._request(client):
                    pass

    # -- handshake --

    def _handshake(self, client: socket.socket) -> bool:
        client.sendall(MAGIC + OPTION_MAGIC + struct.pack(">H", FIXED_NEWSTYLE | NO_ZEROES))
        (flags,) = struct.unpack(">I", _receive(client, 4))
        while True:
            magic, option, length = struct.unpack(">8sII", _receive(client, 16))
            if magic != OPTION_MAGIC or length > LONGEST_OPTION:
                return False
            data = _receive(client, length)
            if option == OPT_EXPORT_NAME:
                client.sendall(
                    struct.pack(">QH", self.disk.size, self._flags()) + bytes(0 if flags & NO_ZEROES else 124)
                )
                return True
            if self._option(client, option, data):
                return option == OPT_GO

    def _option(self, client: socket.socket, option: int, data: bytes) -> bool:
        """Answer an option; return True if it ends negotiation."""

        def reply(kind: int, payload: bytes = b"") -> None:
            client.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(payload)) + payload)

        if option == OPT_ABORT:
            reply(REP_ACK)
            return True
        if option == OPT_LIST:
            reply(REP_SERVER, struct.pack(">I", 0))
            reply(REP_ACK)
        elif option in (OPT_INFO, OPT_GO):
            if len(data) < 6:
                reply(REP_INVALID)
                return False
            reply(REP_INFO, struct.pack(">HQH", INFO_EXPORT, self.disk.size, self._flags()))
            reply(REP_INFO, struct.pack(">HIII", INFO_BLOCK_SIZE, 1 << self.disk.shift, self.disk.piece, LONGEST))
            reply(REP_ACK)
            return option == OPT_GO
        else:
            reply(REP_UNSUPPORTED)
        return False

    def _flags(self) -> int:
        flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_ZEROES | CAN_MULTI
        return flags | READ_ONLY if self.disk.read_only else flags

    # -- requests --

    def _request(self, client: socket.socket) -> bool:
        magic, flags, kind, handle, offset, length = REQUEST.unpack(_receive(client, REQUEST.size))
        if magic != REQUEST_MAGIC or kind == DISCONNECT or (kind in (READ, WRITE) and length > LONGEST):
            return False
        data = _receive(client, length) if kind == WRITE else b""
        error, answer = self._execute(kind, flags, offset, length, data)
        client.sendall(struct.pack(">IIQ", SIMPLE_REPLY, error, handle) + answer)
        return True

    def _execute(self, kind: int, flags: int, offset: int, length: int, data: bytes) -> tuple[int, bytes]:
        """Execute one request. Return an errno (0: success) and the data read."""
        try:
            with self._one:
                if kind == READ:
                    return 0, self.disk.read(offset, length)
                if kind == WRITE:
                    self.disk.write(offset, data, through=bool(flags & FUA))
                elif kind == FLUSH:
                    self.disk.flush()
                elif kind in (TRIM, WRITE_ZEROES):
                    self.disk.zero(offset, length, deallocate=kind == TRIM or not flags & NO_HOLE)
                    if flags & FUA:
                        self.disk.flush()
                else:
                    return EINVAL, b""
        except CommandError as error:
            return ERRORS.get(Status(error.status), EIO) if error.status in set(Status) else EIO, b""
        except InputError:
            return EINVAL, b""
        except (PeerError, SoftibError) as error:
            self._notice(str(error))
            return EIO, b""
        return 0, b""


def _receive(client: socket.socket, size: int) -> bytes:
    """Return exactly ``size`` bytes. Raises :class:`EOFError`."""
    parts = bytearray()
    while len(parts) < size:
        part = client.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
