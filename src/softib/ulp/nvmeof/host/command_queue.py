"""A queue of the initiator: its connection, and the execution of single commands."""

from __future__ import annotations

import select
import time
from functools import cache
from typing import Any

import numpy as np

from softib.errors import PeerError
from softib.ulp.nvmeof import connections, rdma, rdma_core
from softib.ulp.nvmeof.codes import Admin, ConnectReject, Fabrics, Status, status_text
from softib.ulp.nvmeof.host import queue_layout as layout
from softib.ulp.nvmeof.host.queue_kernels import compile_all, post_all, send_capsule, take_responses
from softib.ulp.nvmeof.structures import (
    CM_ACCEPT,
    CM_REJECT,
    CM_REQUEST,
    COMMAND,
    CONNECT_DATA,
    KEYED,
    one,
    read_structure,
)
from softib.ulp.nvmeof.work_requests import BATCH, FAILURE, rings_of

__all__ = ["COMMAND_S", "CommandError", "CommandQueue", "Host", "prepare"]

COMMAND_S = 30.0
"""Time limit of a command."""
SGL = 0x40
WC_STATUS = {
    5: "flushed",
    10: "remote access error",
    12: "the peer does not answer (retries exceeded)",
    13: "RNR retries exceeded",
}


class CommandError(PeerError):
    """Raised if a command ended with an error status."""

    def __init__(self, what: str, status: int, result: int = 0):
        super().__init__(f"{what}: {status_text(status)}")
        self.status, self.result = status & 0x7FF, result


class Host:
    """The identity of this initiator."""

    def __init__(self, nqn: str, identity: bytes):
        self.nqn, self.identity = nqn, identity


@cache
def prepare() -> None:
    """Compile the queue kernels now, so that no target waits for the compilation later. Raises :class:`InputError`
    without an RDMA device."""
    rdma_core.bind_first_device()
    columns = layout.columns_of(2, 4096, rdma.Memory(0, layout.size_of(2, 4096)), 0, 0)
    compile_all(rings_of(None, 2), columns, layout.requests(0), np.zeros((BATCH, 3), np.int64))


class CommandQueue:
    """Queue ``qid`` of a controller, connected, but before the Connect command. It can execute ``depth`` commands at
    once, each with up to ``piece`` bytes of data. Raises :class:`PeerError`."""

    def __init__(
        self,
        channel: connections.EventChannel,
        address: str,
        port: int,
        qid: int,
        depth: int,
        piece: int,
        cntlid: int = 0,
    ):
        self.qid, self.depth, self.piece, self.where = qid, depth, piece, f"{address} port {port}"
        request = one(CM_REQUEST, qid=qid, hrqsize=depth + 1, hsqsize=depth, cntlid=cntlid)
        sends = 2 * depth
        self.pair, finish = connections.connect(channel, address, port, sends, depth + 1, request.tobytes())
        try:
            memory = self.pair.memory(layout.size_of(depth, piece), remote=True)
            self.columns = layout.columns_of(depth, piece, memory, memory.lkey, memory.rkey)
            self.rings = rings_of(self.pair, sends)
            if not post_all(self.rings, self.columns):
                raise PeerError(f"{self.where}: cannot post receives")
            accepted = read_structure(CM_ACCEPT, finish())
            if int(accepted["crqsize"]) < depth:
                raise PeerError(
                    f"{self.where}: the target accepts only {int(accepted['crqsize'])} outstanding commands"
                )
        except connections.Rejected as rejected:
            self.pair.close()
            raise self._refusal(rejected) from None
        except PeerError:
            self.pair.close()
            raise
        self._memory = memory
        self._responses = np.zeros((BATCH, 3), np.int64)

    def _refusal(self, rejected: connections.Rejected) -> PeerError:
        fields = read_structure(CM_REJECT, rejected.private_data)
        try:
            reason = ConnectReject(int(fields["status"])).name.lower().replace("_", " ")
        except ValueError:
            return rejected
        return PeerError(f"{self.where} refused queue {self.qid} of depth {self.depth}: {reason}")

    def lost(self) -> PeerError:
        """Return an error that states why the connection is lost."""
        status = int(self.rings.n[FAILURE])
        if not status:
            return PeerError(f"{self.where}: no response within {COMMAND_S:g} s")
        return PeerError(f"{self.where}: connection lost ({WC_STATUS.get(status, f'completion status {status}')})")

    def data(self, slot: int) -> np.ndarray:
        """Return the data buffer of a slot (uint8)."""
        row: np.ndarray = self.columns.data64[slot].view(np.uint8)
        return row

    def submit(self, command: np.ndarray, data: bytes = b"", size: int = 0) -> int:
        """Send a command, either with ``data`` for the target or with room for ``size`` bytes from the target; return
        its slot. Raises :class:`PeerError`."""
        columns = self.columns
        if not columns.n[layout.FREE]:
            raise PeerError(f"{self.where}: too many commands at once")
        columns.n[layout.FREE] -= 1
        slot = int(columns.free[columns.n[layout.FREE]])
        command["flags"], command["cid"] = SGL, slot
        length = len(data) or size
        if length:
            self.data(slot)[: len(data)] = np.frombuffer(data, np.uint8)
            command["address"] = int(columns.n[layout.DATA_AT]) + slot * self.piece
        key = int(columns.n[layout.RKEY])
        command["length"] = length | (key & 0xFF) << 24
        command["key"] = np.void(key.to_bytes(4, "little"))
        command["kind"] = KEYED
        columns.capsule8[slot] = command.view(np.uint8)
        if not send_capsule(self.rings, columns, slot):
            raise self.lost()
        return slot

    def responses(self) -> list[tuple[int, int, int]]:
        """Return (slot, status, result) of each pending response; :meth:`release` frees the slots. Raises
        :class:`PeerError` if the connection is lost."""
        count = take_responses(self.rings, self.columns, self._responses)
        if count < 0:
            raise self.lost()
        return [tuple(int(v) for v in row) for row in self._responses[:count]]  # type: ignore[misc]

    def release(self, slot: int) -> None:
        """Release a slot and its data buffer."""
        self.columns.free[self.columns.n[layout.FREE]] = slot
        self.columns.n[layout.FREE] += 1

    def sleep(self, timeout_s: float) -> None:
        """Sleep until a response may have arrived, but at most ``timeout_s``. Before this call, the caller must call
        :meth:`~softib.ulp.nvmeof.rdma.QueuePair.arm`, and then check for responses."""
        waits = select.poll()
        waits.register(self.pair.channel_fd, select.POLLIN)
        waits.poll(timeout_s * 1000)
        self.pair.take_events()

    def execute(self, command_name: str, command: np.ndarray, data: bytes = b"", size: int = 0) -> tuple[int, bytes]:
        """Execute one command on the otherwise idle queue; return its result and data. Raises :class:`CommandError` for
        an error status, :class:`PeerError` if no response arrives."""
        slot, until = self.submit(command, data, size), time.monotonic() + COMMAND_S
        while True:
            if not self.pair.armed:
                self.pair.arm()
            for answered, status, result in self.responses():
                if answered == slot:
                    page = self.data(slot)[:size].tobytes()
                    self.release(slot)
                    if status & 0x7FF:
                        raise CommandError(f"{self.where}: {command_name}", status, result)
                    return result, page
            if time.monotonic() > until:
                raise PeerError(f"{self.where}: {command_name}: no response within {COMMAND_S:g} s")
            self.sleep(0.1)

    def connect(self, host: Host, nqn: str, cntlid: int, kato_ms: int) -> int:
        """Execute the Connect command; return the controller's ID. Raises :class:`PeerError`."""
        data = one(
            CONNECT_DATA, hostid=np.void(host.identity), cntlid=cntlid, subnqn=nqn.encode(), hostnqn=host.nqn.encode()
        )
        command = one(
            COMMAND, opcode=Admin.FABRICS, fctype=Fabrics.CONNECT, qid=self.qid, sqsize=self.depth, kato=kato_ms
        )
        try:
            return self.execute("Connect", command, data.tobytes())[0] & 0xFFFF
        except CommandError as error:
            if error.status == Status.CONNECT_INVALID_PARAMETERS and error.result == 1 << 16 | 256:
                raise PeerError(f"{self.where} has no subsystem {nqn}; 'softib nvme discover' lists its own") from None
            raise

    def close(self) -> None:
        """Disconnect."""
        self.pair.disconnect()
        self.pair.close()


def command(opcode: int, nsid: int = 0, **fields: Any) -> np.ndarray:
    """Return a new command with this opcode and namespace."""
    return one(COMMAND, opcode=opcode, nsid=nsid, **fields)
