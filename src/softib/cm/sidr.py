"""Resolution of service IDs (IBA 12.11): UD has no connection, only the question which QP serves an ID."""

from __future__ import annotations

from softib.cm.early_requests import EarlyRequests, Request
from softib.cm.endpoint import Endpoint, Event, Param, QpType, State
from softib.cm.port_space import qkey_of
from softib.iba.cm import CmAttr, SidrStatus
from softib.iba.mad_codec import Head, cm_mad

__all__ = ["Sidr"]


class Sidr(EarlyRequests):
    """The part of :class:`~softib.cm.protocol.Protocol` that resolves service IDs."""

    def _ask_service(self, e: Endpoint, p: Param, head: bytes) -> None:
        assert e.path is not None
        self._name(e)
        e.state = State.SIDR_REQ_SENT
        words = {"request_id": e.comm_id, "pkey": e.path.pkey, "service_id": e.target_service}
        self._ask(e, cm_mad(CmAttr.SIDR_REQ, e.comm_id, **words, private_data=head + p.private_data))

    def _answer_service(self, e: Endpoint, status: SidrStatus, p: Param) -> None:
        e.state = State.SIDR_DONE
        e.reply = cm_mad(
            CmAttr.SIDR_REP, e.peer_comm_id, request_id=e.peer_comm_id, status=status, qpn=p.qpn, qkey=p.qkey or qkey_of(e.ps),
            service_id=e.service_id, private_data=p.private_data,
        )  # fmt: skip
        self.answer_stray(e.port, e.peer_slid, e.reply)

    def _sidr_req(self, port: int, slid: int, head: Head, said: dict) -> None:
        known = self.by_peer.get((-slid, said["request_id"]))
        if known is not None:
            if known.state is State.SIDR_DONE:
                self.answer_stray(port, slid, known.reply)
            return
        listener = self.listener(port, said["service_id"])
        if listener is None:
            stray = Endpoint(None, 0, 0, 0, QpType.UD, port=port, peer_comm_id=said["request_id"], peer_guid=-slid)
            wait = Request(
                said["service_id"],
                lambda: self._sidr_req(port, slid, head, said),
                lambda: self._nobody(port, slid, head, said),
            )
            if not self._hold(stray, self.timing.hold_ms(self.timing.response), wait):
                wait.refuse()
        elif not listener.is_ud:
            self._nobody(port, slid, head, said)
        elif listener.waiting < listener.backlog:
            e = self.child(listener)
            e.port, e.peer_slid, e.peer_comm_id, e.peer_guid = port, slid, said["request_id"], -slid
            e.service_id, e.state, e.told = said["service_id"], State.SIDR_REQ_RCVD, False
            self.by_peer[e.peer_guid, e.peer_comm_id] = e
            listener.waiting += 1
            self.tell(e, Event.CONNECT_REQUEST, 0, said)

    def _nobody(self, port: int, slid: int, head: Head, said: dict) -> None:
        words = {"request_id": said["request_id"], "service_id": said["service_id"]}
        status = SidrStatus.INVALID_SERVICE_ID
        self.answer_stray(port, slid, cm_mad(CmAttr.SIDR_REP, head.tid, status=status, **words))

    def _sidr_rep(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["request_id"])
        if e is None or e.state is not State.SIDR_REQ_SENT:
            return
        self._forget(e)
        e.state = State.SIDR_DONE
        valid = said["status"] == SidrStatus.VALID
        self.tell(e, Event.ESTABLISHED if valid else Event.UNREACHABLE, said["status"], said)
