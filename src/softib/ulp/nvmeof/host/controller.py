"""The initiator's side of a controller: its admin queue (with keep-alive and asynchronous events) and its I/O
queues."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from softib.errors import PeerError
from softib.ulp.nvmeof.codes import Admin, AnaState, Cns, Fabrics, Feature, LogPage, Property
from softib.ulp.nvmeof.connections import EventChannel
from softib.ulp.nvmeof.host import queue_layout as layout
from softib.ulp.nvmeof.host.command_queue import COMMAND_S, CommandError, CommandQueue, Host, command, prepare
from softib.ulp.nvmeof.structures import ANA_GROUP, ANA_HEADER, CONTROLLER, NAMESPACE, read_structure

__all__ = ["HostController"]

ADMIN_DEPTH, ADMIN_PIECE = 31, 4096
DYNAMIC = 0xFFFF
CC_ENABLED = 1 | 6 << 16 | 4 << 20
CC_SHUTDOWN = 1 << 14
READY, FATAL = 1, 2
KEEP_ALIVE_MS = 5000
ANA_NOTICE, NAMESPACE_NOTICE = 0x03, 0x00
EVENTS = 1 << 8 | 1 << 11
PAGE = 4096


class HostController:
    """An association with the controller of subsystem ``nqn`` at ``address``. Raises
    :class:`PeerError`."""

    def __init__(self, address: str, port: int, nqn: str, host: Host, discovery: bool = False):
        self.address, self.port, self.nqn, self.host = address, port, nqn, host
        prepare()
        self._channel = EventChannel()
        self._queues: list[CommandQueue] = []
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._answers: dict[int, tuple[int, int] | None] = {}
        self._closing = False
        self.problem: PeerError | None = None
        self.states_stale = True
        """Whether the target has reported a change of asymmetric access states that has not been read yet."""
        try:
            self.admin = CommandQueue(self._channel, address, port, 0, ADMIN_DEPTH, ADMIN_PIECE)
        except PeerError:
            self._channel.close()
            raise
        try:
            self.cntlid = self.admin.connect(host, nqn, DYNAMIC, 0 if discovery else KEEP_ALIVE_MS)
            self._enable()
            self.identity = read_structure(CONTROLLER, self.identify(Cns.CONTROLLER, 0))
            if not discovery:
                self.execute("Set Features", command(Admin.SET_FEATURES, cdw10=Feature.ASYNC_EVENTS, cdw11=EVENTS))
                self._begin_watching()
        except BaseException:
            self.close()
            raise

    # -- admin commands --

    def execute(self, command_name: str, command: np.ndarray, size: int = 0) -> tuple[int, bytes]:
        """Execute a command of the admin queue; return its result and data. Raises
        :class:`CommandError` and :class:`PeerError`."""
        if self._thread is None:
            return self.admin.execute(command_name, command, b"", size)
        until = time.monotonic() + COMMAND_S
        with self._changed:
            if self.problem is not None:
                raise self.problem
            slot = self.admin.submit(command, b"", size)
            self._answers[slot] = None
            while self._answers[slot] is None:
                if self.problem is not None:
                    raise self.problem
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    raise PeerError(f"{self.admin.where}: {command_name}: no response within {COMMAND_S:g} s")
            answer = self._answers.pop(slot)
            assert answer is not None
            page = self.admin.data(slot)[:size].tobytes()
            self.admin.release(slot)
        status, result = answer
        if status & 0x7FF:
            raise CommandError(f"{self.admin.where}: {command_name}", status, result)
        return result, page

    def _enable(self) -> None:
        """Enable the controller through CC, and wait until it is ready."""
        self._capabilities = self._property(Property.CAP, wide=1)
        self._configure(CC_ENABLED)
        until = time.monotonic() + (self._capabilities >> 24 & 0xFF) / 2
        while not (status := self._property(Property.CSTS)) & READY:
            if status & FATAL or time.monotonic() > until:
                raise PeerError(f"{self.admin.where}: the controller does not become ready (CSTS {status:#x})")
            time.sleep(0.01)

    def _property(self, offset: int, wide: int = 0) -> int:
        get = command(Admin.FABRICS, cdw10=wide, cdw11=offset)
        get["fctype"] = Fabrics.PROPERTY_GET
        return self.execute("Property Get", get)[0] & (2**64 - 1)

    def _configure(self, value: int) -> None:
        put = command(Admin.FABRICS, cdw11=Property.CC, property_value=value)
        put["fctype"] = Fabrics.PROPERTY_SET
        self.execute("Property Set", put)

    def identify(self, cns: int, nsid: int) -> bytes:
        """Return the Identify page that ``cns`` selects."""
        return self.execute("Identify", command(Admin.IDENTIFY, nsid, cdw10=cns), PAGE)[1]

    def log_page(self, page: int, size: int, nsid: int = 0) -> bytes:
        """Return a log page. It is read in parts of the largest size that one command can transfer."""
        parts = []
        for offset in range(0, size, PAGE):
            length = min(PAGE, size - offset)
            dwords = length // 4 - 1
            get = command(
                Admin.GET_LOG_PAGE, nsid, cdw10=page | (dwords & 0xFFFF) << 16, cdw11=dwords >> 16, cdw12=offset
            )
            parts.append(self.execute("Get Log Page", get, length)[1])
        return b"".join(parts)

    def namespaces(self) -> dict[int, np.void]:
        """Return the active namespaces by number."""
        numbers = np.frombuffer(self.identify(Cns.ACTIVE_NAMESPACES, 0), "<u4")
        return {int(n): read_structure(NAMESPACE, self.identify(Cns.NAMESPACE, int(n))) for n in numbers[numbers > 0]}

    def access_states(self) -> dict[int, AnaState]:
        """Return the asymmetric access state of each group on this path."""
        self.states_stale = False
        groups = int(self.identity["nanagrpid"])
        size = ANA_HEADER.itemsize + groups * ANA_GROUP.itemsize + 4 * int(self.identity["nn"])
        page = self.log_page(LogPage.ANA, size)
        states, at = {}, ANA_HEADER.itemsize
        for _ in range(int(read_structure(ANA_HEADER, page)["groups"])):
            group = read_structure(ANA_GROUP, page[at:])
            states[int(group["group"])] = AnaState(int(group["state"]) & 0xF)
            at += ANA_GROUP.itemsize + 4 * int(group["namespaces"])
        return states

    # -- I/O queues --

    def open_queues(self, count: int, depth: int, piece: int) -> list[CommandQueue]:
        """Open ``count`` I/O queues, or fewer if the target grants fewer. Raises :class:`PeerError`."""
        most = (self._capabilities & 0xFFFF) + 1
        if depth >= most:
            raise PeerError(f"{self.admin.where}: a queue depth of {depth} is too deep; use at most {most - 1}")
        if int(self.identity["mdts"]):
            piece = min(piece, PAGE << int(self.identity["mdts"]))
        wanted = command(Admin.SET_FEATURES, cdw10=Feature.NUMBER_OF_QUEUES, cdw11=(count - 1) | (count - 1) << 16)
        granted = self.execute("Set Features", wanted)[0]
        for qid in range(1, 1 + min(count, (granted & 0xFFFF) + 1, (granted >> 16) + 1)):
            queue = CommandQueue(self._channel, self.address, self.port, qid, depth, piece, self.cntlid)
            self._queues.append(queue)
            queue.connect(self.host, self.nqn, self.cntlid, 0)
            queue.columns.n[layout.IN_CAPSULE_MAX] = max(0, 16 * int(self.identity["ioccsz"]) - 64)
            queue.columns.n[layout.TIMEOUT_NS] = int(COMMAND_S * 1e9)
        return self._queues

    # -- keep-alive and notices --

    def _begin_watching(self) -> None:
        self._watched = self.admin.submit(command(Admin.ASYNC_EVENT))
        self._thread = threading.Thread(target=self._watch, name="keep-alive", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        """Handle responses on the admin queue, and keep the association alive."""
        next_s = time.monotonic() + KEEP_ALIVE_MS / 2000
        sent: set[int] = set()
        try:
            while not self._closing:
                with self._changed:
                    self.admin.pair.arm()
                    for slot, status, result in self.admin.responses():
                        self._take(slot, status, result, sent)
                    if time.monotonic() > next_s and not sent:
                        sent.add(self.admin.submit(command(Admin.KEEP_ALIVE)))
                        next_s = time.monotonic() + KEEP_ALIVE_MS / 2000
                self.admin.sleep(0.25)
        except PeerError as error:
            with self._changed:
                self.problem = error
                self._changed.notify_all()
            for queue in self._queues:
                queue.columns.n[layout.STOP] = 1

    def _take(self, slot: int, status: int, result: int, sent: set[int]) -> None:
        if slot in sent:
            sent.discard(slot)
            self.admin.release(slot)
        elif slot == self._watched:
            self.admin.release(slot)
            if status & 0x7FF:
                return
            if result >> 8 & 0xFF == ANA_NOTICE:
                self.states_stale = True
            self._watched = self.admin.submit(command(Admin.ASYNC_EVENT))
        else:
            self._answers[slot] = (status, result)
            self._changed.notify_all()

    def close(self) -> None:
        """Shut the controller down and disconnect."""
        for queue in self._queues:
            queue.close()
        self._queues = []
        if self._thread is not None and self.problem is None:
            try:
                self._configure(CC_ENABLED | CC_SHUTDOWN)
            except PeerError as error:
                self.problem = error
        self._closing = True
        if self._thread is not None:
            self._thread.join()
        self.admin.close()
        self._channel.close()

    def as_dict(self) -> dict[str, Any]:
        """Return the controller's Identify data as a dict."""
        names = {
            name: bytes(self.identity[name]).decode(errors="replace").strip()
            for name in ("serial", "model", "firmware", "subnqn")
        }
        return {"cntlid": self.cntlid, **names}
