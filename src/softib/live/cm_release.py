"""Release of connections (IBA 12.9.9): DREQ, DREP and the time that a dead connection's packets may still be on the way."""

from __future__ import annotations

from softib.iba.cm import CmAttr
from softib.live.cm_core import Core
from softib.live.cm_endpoint import Endpoint, Event, State
from softib.live.cm_mads import Head, cm_mad
from softib.live.cm_path import ack_timeout
from softib.live.cm_words import code_ms

__all__ = ["Release"]


class Release(Core):
    """The part of :class:`~softib.live.cm_protocol.Protocol` that ends connections."""

    def disconnect(self, e: Endpoint) -> None:
        """End it, or answer who ended it. Each side is told DISCONNECTED once."""
        if e.state is State.ESTABLISHED:
            e.state = State.DREQ_SENT
            words = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id, "remote_qpn": e.peer_qpn}
            self._ask(e, cm_mad(CmAttr.DREQ, e.comm_id, **words))
        elif e.state is State.DREQ_RCVD:
            self._drop(e)
            self._rest(e)

    def _drop(self, e: Endpoint) -> None:
        words = {"local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id}
        self._post(e, cm_mad(CmAttr.DREP, e.comm_id, **words))

    def _dreq(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["remote_comm_id"])
        if e is None or e.peer_comm_id != said["local_comm_id"]:
            # Nobody knows it any more: an answer spares the other side its retries.
            words = {"local_comm_id": said["remote_comm_id"], "remote_comm_id": said["local_comm_id"]}
            self.answer_stray(port, slid, cm_mad(CmAttr.DREP, head.tid, **words))
        elif e.state in (State.ESTABLISHED, State.REP_SENT, State.DREQ_SENT):
            self._stop(e)
            e.state = State.DREQ_RCVD
            self.tell(e, Event.DISCONNECTED, 0, {})
        elif e.state is State.TIMEWAIT:
            self._drop(e)

    def _drep(self, port: int, slid: int, head: Head, said: dict) -> None:
        e = self.by_id.get(said["remote_comm_id"])
        if e is None or e.state not in (State.DREQ_SENT, State.DREQ_RCVD):
            return
        waited = e.state is State.DREQ_SENT
        self._rest(e)
        if waited:
            self.tell(e, Event.DISCONNECTED, 0, {})

    def _rest(self, e: Endpoint) -> None:
        assert e.path is not None
        self._stop(e)
        e.state, e.tries = State.TIMEWAIT, 0
        self._wait(e, code_ms(ack_timeout(e.path.life_time)))
