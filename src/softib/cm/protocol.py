"""Communication management between ports (IBA 12.9): requests, replies, releases and the resolution of service IDs.

Sans I/O: :attr:`Protocol.outbox` collects MADs, :meth:`Protocol.arrived` takes them, time is an argument. What happens
to an id is told through ``tell``. Timeouts and numbers of retries are those of the kernel's rdma_cm.
"""

from __future__ import annotations

import errno
import heapq

from softib.cm.early_requests import Request
from softib.cm.endpoint import Endpoint, Event, Param, QpType, State
from softib.cm.fields import code_ms, reject_words, reply_words, request_words, said_in
from softib.cm.path import Path
from softib.cm.release import Release
from softib.cm.sidr import Sidr
from softib.iba.cm import CmAttr, RejectReason, SidrStatus
from softib.iba.mad_codec import Head, cm_mad, parse_cm

__all__ = ["Protocol"]


HANDLERS = {
    CmAttr.REQ: "_req", CmAttr.MRA: "_mra", CmAttr.REJ: "_rej", CmAttr.REP: "_rep", CmAttr.RTU: "_rtu",
    CmAttr.DREQ: "_dreq", CmAttr.DREP: "_drep", CmAttr.SIDR_REQ: "_sidr_req", CmAttr.SIDR_REP: "_sidr_rep",
}  # fmt: skip
"""What takes a message."""


class Protocol(Release, Sidr):
    """All connections of the fabric's hosts."""

    # -- what programs do --

    def connect(self, e: Endpoint, p: Param, head: bytes) -> None:
        """Ask for a connection; ``head`` are the CMA's octets before the private data."""
        assert e.path is not None
        e.asked, e.qpn = p, p.qpn
        if e.is_ud:
            self._ask_service(e, p, head)
            return
        self._name(e)
        e.state = State.REQ_SENT
        words = request_words(e, p, head, self.guid(e.port), self.timing)
        self._ask(e, cm_mad(CmAttr.REQ, e.comm_id, p.ece_options, **words))

    def accept(self, e: Endpoint, p: Param) -> None:
        """Answer a request."""
        self._answered(e)
        if e.state is State.SIDR_REQ_RCVD:
            self._answer_service(e, SidrStatus.VALID, p)
        elif e.state is State.REQ_RCVD:
            e.told, e.state, e.qpn = True, State.REP_SENT, p.qpn
            self._ask(e, cm_mad(CmAttr.REP, e.comm_id, p.ece_options, **reply_words(e, p, self.guid(e.port))))

    def ready(self, e: Endpoint) -> None:
        """The program's QP is ready: say so."""
        if e.state is State.REP_RCVD:
            e.state = State.ESTABLISHED
            e.reply = cm_mad(CmAttr.RTU, e.comm_id, local_comm_id=e.comm_id, remote_comm_id=e.peer_comm_id)
            self._post(e, e.reply)

    def reject(self, e: Endpoint, reason: int, private_data: bytes = b"") -> None:
        """Refuse a request, or the answer to one's own."""
        self._answered(e)
        if e.state is State.SIDR_REQ_RCVD:
            self._answer_service(e, SidrStatus.REJECTED, Param(private_data=private_data))
        elif e.state in (State.REQ_RCVD, State.REP_RCVD, State.REP_SENT, State.REQ_SENT):
            self._post(e, cm_mad(CmAttr.REJ, e.comm_id, **reject_words(e, reason, private_data, self.guid(e.port))))
            self._forget(e)

    def notify(self, e: Endpoint) -> None:
        """The program's QP received something: the other side is ready, whatever became of its message."""
        if e.state is State.REP_SENT:
            self._established(e)

    def destroy(self, e: Endpoint) -> None:
        """The id is gone: tell the other side as the kernel would."""
        if e.state is State.REQ_SENT:
            self.reject(e, RejectReason.TIMEOUT)
        elif e.state in (State.REQ_RCVD, State.REP_RCVD, State.REP_SENT, State.SIDR_REQ_RCVD):
            self.reject(e, RejectReason.CONSUMER_DEFINED)
        elif e.state in (State.ESTABLISHED, State.DREQ_RCVD):
            self.disconnect(e)
        self._forget(e)

    # -- time --

    def tick(self, now_ps: int) -> None:
        """What was not answered is sent again, or given up."""
        self.now_ps = now_ps
        while (due := self.deadline_ps()) is not None and due <= now_ps:
            e = heapq.heappop(self._timers)[2]
            if e.state is State.TIMEWAIT:
                self._forget(e)
                self.tell(e, Event.TIMEWAIT_EXIT, 0, {})
            elif e.state is State.HELD:
                self._refuse_late(e)
            elif e.state is State.RELEASE_HELD:
                self._look_again(e)
            elif e.tries:
                e.tries -= 1
                self._post(e, e.reply)
                self._wait(e, self.timing.response_ms)
            else:
                self._give_up(e)

    def _give_up(self, e: Endpoint) -> None:
        state = e.state
        if state is State.DREQ_SENT:
            self._rest(e)
            self.tell(e, Event.DISCONNECTED, -errno.ETIMEDOUT, {})
            return
        if state in (State.REQ_SENT, State.REP_SENT):
            self.reject(e, RejectReason.TIMEOUT)
        self._forget(e)
        self.tell(e, Event.UNREACHABLE, -errno.ETIMEDOUT, {})

    # -- what arrives --

    def arrived(self, port: int, slid: int, mad: bytes) -> None:
        """A MAD of this class reached ``port``. What means nothing is dropped (IBA 12.9.8)."""
        parsed = parse_cm(mad)
        if parsed is not None:
            head, said = parsed
            getattr(self, HANDLERS[CmAttr(head.attr)])(port, slid, head, said)

    def _req(self, port: int, slid: int, head: Head, said: dict) -> None:
        known = self.by_peer.get((said["local_ca_guid"], said["local_comm_id"]))
        if known is not None:
            self._again(known)
            return
        path = Path.back(said)
        listener = self.listener(port, said["service_id"])
        if listener is None:
            stray = self._stray(port, path, said)
            wait = Request(
                said["service_id"],
                lambda: self._req(port, slid, head, said),
                lambda: self._refuse(stray, RejectReason.INVALID_SERVICE_ID),
            )
            if not self._hold(stray, self.timing.hold_ms(said["remote_cm_response_timeout"]), wait):
                wait.refuse()
        elif listener.qp_type not in said_in(said):
            self._refuse(self._stray(port, path, said), RejectReason.INVALID_TRANSPORT)
        elif listener.waiting < listener.backlog:  # else dropped: who asks will ask again
            e = self.child(listener)
            e.port, e.path, e.sgid, e.dgid = port, path, path.sgid, path.dgid
            e.peer_comm_id, e.peer_guid, e.peer_qpn = said["local_comm_id"], said["local_ca_guid"], said["local_qpn"]
            self._name(e)
            self.by_peer[e.peer_guid, e.peer_comm_id] = e
            e.state, e.told = State.REQ_RCVD, False
            listener.waiting += 1
            self.tell(e, Event.CONNECT_REQUEST, 0, said | {"ece_options": head.modifier})

    def _stray(self, port: int, path: Path, said: dict) -> Endpoint:
        """Who asks, as long as no listener has it."""
        return Endpoint(
            None, 0, 0, 0, QpType.RC, port=port, path=path,
            peer_comm_id=said["local_comm_id"], peer_guid=said["local_ca_guid"],
        )  # fmt: skip

    def _refuse(self, stray: Endpoint, reason: RejectReason) -> None:
        stray.state = State.REQ_RCVD
        self.reject(stray, reason)

    def _again(self, e: Endpoint) -> None:
        """The other side asks again: the answer was lost, or takes long."""
        if e.state is State.REP_SENT:
            self._post(e, e.reply)
        elif e.state is State.REQ_RCVD:
            self._beg(e, 0)

    def _beg(self, e: Endpoint, message: int) -> None:
        words = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id}
        self._post(e, cm_mad(CmAttr.MRA, e.comm_id, message=message, service_timeout=self.timing.patience, **words))

    def _mra(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["remote_comm_id"])
        if e is not None and e.state in (State.REQ_SENT, State.REP_SENT):
            self._wait(e, code_ms(said["service_timeout"]) + self.timing.response_ms)

    def _rep(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["remote_comm_id"])
        if e is None:
            return
        if e.state is State.REQ_SENT:
            self._stop(e)
            e.peer_comm_id, e.peer_qpn, e.state = said["local_comm_id"], said["local_qpn"], State.REP_RCVD
            e.peer_guid = said["local_ca_guid"]
            self.tell(e, Event.CONNECT_RESPONSE, 0, said | {"ece_options": head.modifier})
        elif e.state is State.ESTABLISHED and e.reply:
            self._post(e, e.reply)
        elif e.state is State.REP_RCVD:
            self._beg(e, 1)

    def _rtu(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["remote_comm_id"])
        if e is not None and e.state is State.REP_SENT:
            self._established(e)

    def _established(self, e: Endpoint) -> None:
        self._stop(e)
        e.state, e.reply = State.ESTABLISHED, b""
        self.tell(e, Event.ESTABLISHED, 0, {})

    def _rej(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["remote_comm_id"])
        if e is None and said["reason"] == RejectReason.TIMEOUT:
            e = self.by_peer.get((int.from_bytes(said["ari"][:8], "big"), said["local_comm_id"]))
        if e is None or e.state in (State.IDLE, State.TIMEWAIT):
            return
        known = e.told
        self._forget(e)
        if known:
            self.tell(e, Event.REJECTED, said["reason"], said)
