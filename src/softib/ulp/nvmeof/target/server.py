"""The target server. It listens on all ports of its node, and monitors its hosts and files."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from softib.errors import InputError, PeerError
from softib.foreign_text import shown
from softib.ulp.nvmeof.codes import AnaState, ConnectReject, LogPage
from softib.ulp.nvmeof.connections import CmEvent, ConnectionRequest, Event, EventChannel, Listener
from softib.ulp.nvmeof.rdma_core import bind_first_device
from softib.ulp.nvmeof.structures import CM_REJECT, CM_REQUEST, one, read_structure
from softib.ulp.nvmeof.target.capture import CapsuleCapture
from softib.ulp.nvmeof.target.controller import (
    ANA_NOTICE,
    MAX_CONTROLLERS,
    MAX_IO_QUEUES,
    NAMESPACE_NOTICE,
    Controllers,
)
from softib.ulp.nvmeof.target.queue import TargetQueue
from softib.ulp.nvmeof.target.queue_kernels import compile_all
from softib.ulp.nvmeof.target.queue_layout import MAX_ENTRIES, columns_of
from softib.ulp.nvmeof.target.subsystem import Namespace, Subsystem, TargetPort

__all__ = ["TargetServer"]

LOOK_S = 0.5
"""Interval between checks of the files and hosts."""
CONNECT_S = 10.0
"""Time within which a new connection must send its Connect command."""


class TargetServer:
    """Exports ``files`` as the namespaces 1, 2, ... of subsystem ``nqn`` on ``addresses``. ``states``: asymmetric
    access states by port number (1, 2, ... in the order of ``addresses``). ``pcap``: the file to which capsules and
    responses are captured. Raises :class:`InputError`."""

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        nqn: str,
        addresses: Sequence[str],
        port: int,
        states: Mapping[int, AnaState],
        notice: Callable[[str], None],
        pcap: str | os.PathLike[str] | None = None,
    ):
        ports = [TargetPort(i, address) for i, address in enumerate(addresses, 1)]
        self._namespaces: list[Namespace] = []
        with contextlib.ExitStack() as undo:
            for file in files:
                self._namespaces.append(Namespace.of_file(file))
                undo.callback(os.close, self._namespaces[-1].fd)
            self.subsystem = Subsystem(nqn, self._namespaces, ports, port)
            for number, state in states.items():
                self.subsystem.set_state(number, state)
            bind_first_device()
            queue = columns_of(None, 2, self.subsystem.shared_columns(ports[0]), pcap is not None)
            compile_all(queue.rings, queue.columns, np.zeros(2, np.int64))  # compile now, so that no host waits for it
            self._channel = EventChannel()
            undo.callback(self._channel.close)
            self._listener = Listener(self._channel, "0.0.0.0", port)
            undo.callback(self._listener.close)
            self._capture = None if pcap is None else CapsuleCapture(pcap)  # last: overwrites an existing file
            undo.pop_all()
        self.controllers, self._notice = Controllers(self.subsystem), notice
        self._queues: dict[int, TargetQueue] = {}
        self._ended: list[TargetQueue] = []
        self._lock = threading.Lock()

    def serve(self, until: Callable[[], bool]) -> None:
        """Serve until ``until`` returns true; ``until`` is called twice a second."""
        look_s = 0.0
        while not until():
            event = self._channel.get(LOOK_S)
            if event is not None:
                self._event(event)
            self._close_ended()
            if time.monotonic() > look_s:
                look_s = time.monotonic() + LOOK_S
                self._look()

    def close(self) -> None:
        """End all connections, and close the files."""
        for queue in list(self._queues.values()):
            queue.call(ending=True)
        for queue in list(self._queues.values()):
            queue.close()
        self._queues.clear()
        self._listener.close()
        self._channel.close()
        self.subsystem.close()
        if self._capture is not None:
            self._capture.close()

    def set_state(self, number: int, state: AnaState) -> None:
        """Change the asymmetric access state of port ``number``, and notify the hosts. Raises :class:`InputError`."""
        self.subsystem.set_state(number, state)
        self.controllers.notify(ANA_NOTICE, LogPage.ANA)
        self._call_admin_queues()

    # -- connections --

    def _event(self, event: CmEvent) -> None:
        kind = event.kind
        if kind == Event.CONNECT_REQUEST:
            self._request(ConnectionRequest(event.address, event.parameters, event.private_data))
            return
        queue = self._queues.get(event.address)
        if queue is None:
            return
        if kind == Event.ESTABLISHED:
            queue.start()
        elif kind in (Event.DISCONNECTED, Event.DEVICE_REMOVAL, Event.CONNECT_ERROR, Event.UNREACHABLE, Event.REJECTED):
            queue.call(ending=True)
            if not queue.started:
                with self._lock:
                    self._ended.append(queue)

    def _request(self, request: ConnectionRequest) -> None:
        fields = read_structure(CM_REQUEST, request.private_data)
        qid, entries = int(fields["qid"]), int(fields["hsqsize"]) + 1
        reason = None
        if len(request.private_data) < CM_REQUEST.itemsize:
            reason = ConnectReject.INVALID_LENGTH
        elif fields["recfmt"]:
            reason = ConnectReject.INVALID_FORMAT
        elif qid > MAX_IO_QUEUES:
            reason = ConnectReject.INVALID_QUEUE_ID
        elif not 2 <= entries <= MAX_ENTRIES:
            reason = ConnectReject.INVALID_HSQSIZE
        elif not fields["hrqsize"]:
            reason = ConnectReject.INVALID_HRQSIZE
        elif qid and int(fields["cntlid"]) > MAX_CONTROLLERS:
            reason = ConnectReject.INVALID_CONTROLLER_ID
        port = self.subsystem.port_at(request.local_address) or self.subsystem.ports[0]
        if reason is None:
            try:
                self._queues[request.address] = TargetQueue(
                    request, qid, entries, self.controllers, port, self._queue_ended, self._capture
                )
                return
            except PeerError as error:
                self._notice(f"a connection was refused: {error}")
                return
        request.reject(one(CM_REJECT, status=int(reason)).tobytes())

    def _queue_ended(self, queue: TargetQueue) -> None:
        """Handle the end of a queue, in its thread."""
        with self._lock:
            self._ended.append(queue)
        controller = queue.controller
        if controller is not None and queue.qid == 0:
            for other in list(self._queues.values()):
                if other.controller is controller and other is not queue:
                    other.call(ending=True)

    def _close_ended(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for queue in ended:
            if self._queues.pop(queue.address, None) is not None:
                queue.close()

    # -- periodic checks --

    def _look(self) -> None:
        changes = self.subsystem.look()
        for text in changes:
            self._notice(text)
        if changes:
            self.controllers.notify(NAMESPACE_NOTICE, LogPage.CHANGED_NAMESPACES)
            self._call_admin_queues()
        now = time.monotonic()
        for queue in list(self._queues.values()):
            controller = queue.controller
            if controller is None:
                if now - queue.since_s > CONNECT_S:
                    queue.call(ending=True)
            elif queue.qid == 0 and controller.expired(now):
                self._notice(f"host {shown(controller.host_nqn)} was silent for too long; its queues end")
                queue.call(ending=True)

    def _call_admin_queues(self) -> None:
        for queue in list(self._queues.values()):
            if queue.qid == 0 and queue.controller is not None:
                queue.call()


def state_of(text: str) -> AnaState:
    """Return the asymmetric access state with the name ``text``. Raises :class:`InputError`."""
    names = {state.name.lower().replace("_", "-"): state for state in AnaState}
    if text not in names:
        raise InputError(f"access state {shown(text)!r} does not exist; use one of {', '.join(names)}")
    return names[text]
