"""Controllers of a subsystem: Connect, properties, and the commands of the admin queue. The module does no I/O: its
functions take a command and its data, and return a reply."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from softib.ulp.nvmeof.codes import DISCOVERY_NQN, Admin, Fabrics, Feature, LogPage, Property, Status
from softib.ulp.nvmeof.structures import (
    CONNECT_DATA,
    ERROR_ENTRY,
    SMART,
    one,
    read_structure,
)
from softib.ulp.nvmeof.target.queue_layout import MAX_DATA, MAX_ENTRIES
from softib.ulp.nvmeof.target.subsystem import AER_LIMIT, VERSION, Subsystem, TargetPort

__all__ = [
    "ANA_NOTICE",
    "MAX_CONTROLLERS",
    "MAX_IO_QUEUES",
    "NAMESPACE_NOTICE",
    "Controller",
    "Controllers",
    "Reply",
    "refuse",
]

MAX_IO_QUEUES = 16
MAX_CONTROLLERS = 64
CAP = (MAX_ENTRIES - 1) | 1 << 16 | 20 << 24 | 1 << 37
"""The property CAP: MQES; contiguous queues required; ready within 10 s; the NVM command set."""
CC_ENABLE, CC_SHUTDOWN, CC_SIZES = 1, 3 << 14, 6 << 16 | 4 << 20
CC_SIZES_MASK, CC_PAGE_SIZE = 0xFF << 16, 0xF << 7
CSTS_READY, CSTS_FATAL, CSTS_SHUT_DOWN = 1, 2, 2 << 2
DYNAMIC = 0xFFFF
IN_DATA = 1 << 16
"""Bit of Connect's result: the invalid parameter is in the data."""
DNR = 0x4000
NOTICE = 2
NAMESPACE_NOTICE, ANA_NOTICE = 0x00, 0x03
KEEP_ALIVE_GRACE = 2.0
"""Factor by which the host's keep-alive time is extended, because the machine may be busy."""


@dataclass
class Reply:
    """A reply to a command: a status (0: success), DW0 and DW1, and data for the host."""

    status: int = 0
    result: int = 0
    data: bytes = b""


def refuse(status: int, result: int = 0) -> Reply:
    """Return an error response, after which the host must not retry the command."""
    return Reply(DNR | status, result)


class Queue(Protocol):
    """The interface through which a controller uses a queue."""

    qid: int

    def counts(self) -> np.ndarray:
        """Return the queue's totals, in the order of :data:`COUNTS`."""

    def newest_error(self) -> tuple[int, bytes]:
        """Return the queue's number of errors, and the log page entry of the newest one."""


COUNTS = ("read_bytes", "written_bytes", "reads", "writes", "errors")


@dataclass(eq=False)
class Controller:
    """One association with a host."""

    cntlid: int
    subsystem: Subsystem
    port: TargetPort
    host_nqn: str
    host_id: bytes
    discovery: bool
    kato_ms: int
    seen_s: float
    """Time of the last command of the admin queue."""
    cc: int = 0
    csts: int = 0
    io_queues: int = MAX_IO_QUEUES
    queues: dict[int, Queue | None] = field(default_factory=dict)
    """Queues by number; None while the connection is new."""
    past: np.ndarray = field(default_factory=lambda: np.zeros(len(COUNTS), np.int64))
    """Totals of queues that have ended."""
    events_wanted: int = 0
    awaiting: list[int] = field(default_factory=list)
    """Slots of unanswered Async Event Requests."""
    events: list[tuple[int, int]] = field(default_factory=list)
    """Events (information, log page) that wait for an Async Event Request."""
    masked: set[int] = field(default_factory=set)
    """Log pages with an event that was sent; the host has not read the page since."""

    def expired(self, now_s: float) -> bool:
        """Return whether the host has exceeded its keep-alive time."""
        return self.kato_ms > 0 and now_s - self.seen_s > self.kato_ms / 1000 * KEEP_ALIVE_GRACE

    # -- notices --

    def notify(self, information: int, page: int) -> None:
        """Send the host an asynchronous event for a log page. Further events for this page are suppressed until the
        host has read it."""
        if not self.discovery and self.events_wanted & (1 << (8 + information)) and page not in self.masked:
            self.masked.add(page)
            self.events.append((information, page))

    def due_events(self) -> list[tuple[int, int]]:
        """Return the slots of the Async Event Requests to answer now, each with its result."""
        due = []
        while self.events and self.awaiting:
            information, page = self.events.pop(0)
            due.append((self.awaiting.pop(0), NOTICE | information << 8 | page << 16))
        return due

    # -- commands --

    def execute(self, command: np.void, slot: int, now_s: float) -> Reply | None:
        """Execute a command of the admin queue. Return the reply; None if it is sent later."""
        self.seen_s = now_s
        opcode = int(command["opcode"])
        if opcode == Admin.FABRICS:
            return self._fabrics(command)
        if not self.csts & CSTS_READY:
            return refuse(Status.COMMAND_SEQUENCE_ERROR)
        if opcode == Admin.IDENTIFY:
            status, page = self.subsystem.identify(
                int(command["cdw10"]) & 0xFF, int(command["nsid"]), self.cntlid, self.discovery
            )
            return Reply(data=page) if status == Status.SUCCESS else refuse(status)
        if opcode == Admin.GET_LOG_PAGE:
            return self._log_page(command)
        if opcode == Admin.KEEP_ALIVE:
            return Reply()
        if opcode == Admin.SET_FEATURES:
            return self._set_feature(command)
        if opcode == Admin.GET_FEATURES:
            return self._get_feature(command)
        if opcode == Admin.ASYNC_EVENT:
            if len(self.awaiting) >= AER_LIMIT:
                return refuse(Status.ASYNC_EVENT_LIMIT)
            self.awaiting.append(slot)
            return None
        if opcode == Admin.ABORT and not self.discovery:
            return Reply(result=1)  # "not aborted", because a command always ends before its Abort arrives
        return refuse(Status.INVALID_OPCODE)

    def _fabrics(self, command: np.void) -> Reply:
        kind, offset, wide = int(command["fctype"]), int(command["cdw11"]), int(command["cdw10"]) & 1
        if kind == Fabrics.PROPERTY_GET:
            values = {Property.CAP: CAP, Property.VS: VERSION, Property.CC: self.cc, Property.CSTS: self.csts}
            if offset not in values or wide != (offset == Property.CAP):
                return refuse(Status.INVALID_FIELD)
            return Reply(result=values[Property(offset)])
        if kind == Fabrics.PROPERTY_SET:
            if offset != Property.CC or wide:
                return refuse(Status.INVALID_FIELD)
            self._configure(int(command["property_value"]) & 0xFFFFFFFF)
            return Reply()
        return refuse(Status.COMMAND_SEQUENCE_ERROR if kind == Fabrics.CONNECT else Status.INVALID_OPCODE)

    def _configure(self, cc: int) -> None:
        """Handle a write of CC by the host."""
        enables, was_enabled = bool(cc & CC_ENABLE), bool(self.cc & CC_ENABLE)
        self.cc = cc
        if enables and not was_enabled:
            fits = self.discovery or (cc & CC_SIZES_MASK == CC_SIZES and not cc & CC_PAGE_SIZE)
            self.csts = CSTS_READY if fits else CSTS_FATAL
        elif not enables:
            self.csts &= ~(CSTS_READY | CSTS_SHUT_DOWN)
        if cc & CC_SHUTDOWN:
            self.csts |= CSTS_SHUT_DOWN

    def _log_page(self, command: np.void) -> Reply:
        page, keep = int(command["cdw10"]) & 0xFF, int(command["cdw10"]) >> 15 & 1
        length = ((int(command["cdw10"]) >> 16 | (int(command["cdw11"]) & 0xFFFF) << 16) + 1) * 4
        offset = int(command["cdw12"]) | int(command["cdw13"]) << 32
        data = self._page(page, int(command["cdw10"]) >> 8 & 0xF)
        if data is None:
            return refuse(Status.INVALID_LOG_PAGE)
        if offset & 3 or offset > len(data) or length > MAX_DATA:
            return refuse(Status.INVALID_FIELD)
        if not keep:
            self.masked.discard(page)
        return Reply(data=data[offset : offset + length].ljust(length, b"\0"))

    def _page(self, page: int, specific: int) -> bytes | None:
        """Return the complete log page with this number; None if no such page exists."""
        if self.discovery:
            return self.subsystem.discovery_page() if page == LogPage.DISCOVERY else None
        if page == LogPage.ANA:
            return self.subsystem.ana_page(self.port, bool(specific & 1))
        if page == LogPage.ERROR:
            newest = max((queue.newest_error() for queue in self._io()), default=(0, b""))
            return newest[1].ljust(ERROR_ENTRY.itemsize, b"\0") if newest[0] else bytes(ERROR_ENTRY.itemsize)
        if page == LogPage.SMART:
            return self._smart()
        if page == LogPage.FIRMWARE:
            return (b"\x01".ljust(8, b"\0") + b"1".ljust(8)).ljust(512, b"\0")
        if page == LogPage.CHANGED_NAMESPACES:
            changed = range(1, len(self.subsystem.namespaces) + 1) if page in self.masked else ()
            return np.array(changed, "<u4").tobytes().ljust(4096, b"\0")
        return None

    def _smart(self) -> bytes:
        total = sum((queue.counts() for queue in self._io()), self.past)
        read, written, reads, writes, errors = (int(v) for v in total)
        page = one(SMART, temperature=300, spare=100, spare_threshold=10, reads=reads, writes=writes, errors=errors)
        page["units_read"], page["units_written"] = -(-read // 512_000), -(-written // 512_000)
        page["critical"] = 0x08 if not all(n.writable for n in self.subsystem.namespaces) else 0  # read only
        return page.tobytes()

    def _io(self) -> list[Queue]:
        return [queue for queue in list(self.queues.values()) if queue is not None]

    def _set_feature(self, command: np.void) -> Reply:
        feature, value = int(command["cdw10"]) & 0xFF, int(command["cdw11"])
        if feature == Feature.KEEP_ALIVE:
            self.kato_ms = value
        elif feature == Feature.ASYNC_EVENTS:
            self.events_wanted = value
        elif self.discovery:
            return refuse(Status.INVALID_FIELD)
        elif feature == Feature.NUMBER_OF_QUEUES:
            if DYNAMIC in (value & 0xFFFF, value >> 16):
                return refuse(Status.INVALID_FIELD)
            if len(self.queues) > 1:
                return refuse(Status.COMMAND_SEQUENCE_ERROR)
            self.io_queues = min(MAX_IO_QUEUES, (value & 0xFFFF) + 1, (value >> 16) + 1)
            return Reply(result=self._queue_counts())
        elif feature == Feature.WRITE_CACHE:
            if not value & 1:
                return refuse(Status.FEATURE_NOT_CHANGEABLE)
        else:
            return refuse(Status.INVALID_FIELD)
        return Reply()

    def _get_feature(self, command: np.void) -> Reply:
        feature = int(command["cdw10"]) & 0xFF
        if feature == Feature.HOST_ID and int(command["cdw11"]) & 1:
            return Reply(data=self.host_id)
        values = {Feature.KEEP_ALIVE: self.kato_ms, Feature.ASYNC_EVENTS: self.events_wanted}
        if not self.discovery:
            values |= {Feature.NUMBER_OF_QUEUES: self._queue_counts(), Feature.WRITE_CACHE: 1}
        if feature not in values:
            return refuse(Status.INVALID_FIELD)
        return Reply(result=values[Feature(feature)])

    def _queue_counts(self) -> int:
        return (self.io_queues - 1) | (self.io_queues - 1) << 16


class Controllers:
    """The controllers of a subsystem, by number. The threads of all queues share this object."""

    def __init__(self, subsystem: Subsystem):
        self.subsystem = subsystem
        self.by_number: dict[int, Controller] = {}
        self._lock = threading.Lock()

    def connect(
        self, command: np.void, data: bytes, port: TargetPort, qid: int, entries: int, now_s: float
    ) -> tuple[Reply, Controller | None]:
        """Execute Connect on a queue. ``qid`` and ``entries`` come from the queue's connection request."""
        fields = read_structure(CONNECT_DATA, data)
        if int(command["recfmt"]) != 0:
            return refuse(Status.CONNECT_INCOMPATIBLE_FORMAT), None
        wrong = None
        if len(data) < CONNECT_DATA.itemsize:
            return refuse(Status.SGL_LENGTH_INVALID), None
        if int(command["qid"]) != qid:
            wrong = 42
        elif not 0 < int(command["sqsize"]) < entries:
            wrong = 44
        if wrong is not None:
            return refuse(Status.CONNECT_INVALID_PARAMETERS, wrong), None
        discovery = bytes(fields["subnqn"]) == DISCOVERY_NQN.encode()
        if not discovery and bytes(fields["subnqn"]) != self.subsystem.nqn.encode():
            return refuse(Status.CONNECT_INVALID_PARAMETERS, IN_DATA | 256), None
        with self._lock:
            if qid == 0:
                return self._associate(command, fields, discovery, port, now_s)
            return self._join(fields, qid)

    def _associate(
        self, command: np.void, fields: np.void, discovery: bool, port: TargetPort, now_s: float
    ) -> tuple[Reply, Controller | None]:
        if int(fields["cntlid"]) != DYNAMIC:
            return refuse(Status.CONNECT_INVALID_PARAMETERS, IN_DATA | 16), None
        if not bytes(fields["hostnqn"]).startswith(b"nqn."):
            return refuse(Status.CONNECT_INVALID_PARAMETERS, IN_DATA | 512), None
        number = next((i for i in range(1, MAX_CONTROLLERS + 1) if i not in self.by_number), None)
        if number is None:
            return Reply(Status.CONNECT_CONTROLLER_BUSY), None
        controller = Controller(
            number,
            self.subsystem,
            port,
            bytes(fields["hostnqn"]).decode(errors="replace"),
            bytes(fields["hostid"]),
            discovery,
            int(command["kato"]),
            now_s,
        )
        controller.queues[0] = None
        self.by_number[number] = controller
        return Reply(result=number), controller

    def _join(self, fields: np.void, qid: int) -> tuple[Reply, Controller | None]:
        controller = self.by_number.get(int(fields["cntlid"]))
        if controller is None or controller.discovery:
            return refuse(Status.CONNECT_INVALID_PARAMETERS, IN_DATA | 16), None
        if bytes(fields["hostnqn"]).decode(errors="replace") != controller.host_nqn:
            return refuse(Status.CONNECT_INVALID_PARAMETERS, IN_DATA | 512), None
        if bytes(fields["hostid"]) != controller.host_id:
            return refuse(Status.CONNECT_INVALID_PARAMETERS, IN_DATA), None
        if not controller.csts & CSTS_READY or qid > controller.io_queues:
            return refuse(Status.CONNECT_INVALID_PARAMETERS, 42), None
        if qid in controller.queues:
            return refuse(Status.COMMAND_SEQUENCE_ERROR), None
        controller.queues[qid] = None
        return Reply(result=controller.cntlid), controller

    def leave(self, controller: Controller, qid: int) -> None:
        """Remove queue ``qid`` of ``controller``, which has ended. If it is the admin queue, end the association."""
        with self._lock:
            queue = controller.queues.pop(qid, None)
            if queue is not None:
                controller.past += queue.counts()
            if qid == 0:
                self.by_number.pop(controller.cntlid, None)

    def all(self) -> list[Controller]:
        """Return all current controllers."""
        with self._lock:
            return list(self.by_number.values())

    def notify(self, information: int, page: int) -> None:
        """Send an asynchronous event to all hosts."""
        for controller in self.all():
            controller.notify(information, page)
