"""Release of connections (IBA 12.9.9): DREQ, DREP and the time that a dead connection's packets may still be on the way.

A DREQ stays behind the data that was sent before it: as long as the program that it is for has completions of the connection to
take, it waits (:mod:`softib.live.rdma_cm.unread_completions`), at most ``Timing.unread_ms``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from softib.cm.core import MS_PS, Core
from softib.cm.endpoint import Endpoint, Event, State
from softib.cm.fields import code_ms
from softib.cm.path import ack_timeout
from softib.iba.cm import CmAttr
from softib.iba.mad_codec import Head, cm_mad

__all__ = ["Release"]

LOOK_MS = 1


class Held(NamedTuple):
    """A DREQ that came to the id ``e``: whether its program still has completions to take, and until when that counts."""

    e: Endpoint
    unread: Callable[[], bool]
    until_ps: int


class Release(Core):
    """The part of :class:`~softib.cm.protocol.Protocol` that ends connections."""

    def disconnect(self, e: Endpoint) -> None:
        """End it, or answer who ended it. Each side is told DISCONNECTED once."""
        if e in self.releases:  # it need not wait any more: its program has decided
            self._released(e)
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
        elif e in self.releases:
            pass  # asked again
        elif e.state is State.DREQ_SENT or (
            e.state in (State.ESTABLISHED, State.REP_SENT) and not self._hold_release(e)
        ):
            self._released(e)
        elif e.state is State.TIMEWAIT:
            self._drop(e)

    def _released(self, e: Endpoint) -> None:
        self.releases.pop(e, None)
        self._stop(e)
        e.state = State.DREQ_RCVD
        self.tell(e, Event.DISCONNECTED, 0, {})

    def _hold_release(self, e: Endpoint) -> bool:
        unread = self.unread(e.qpn)
        if unread is None:
            return False
        self.releases[e] = Held(e, unread, self.now_ps + self.timing.unread_ms * MS_PS)
        self._look_later(self.releases[e])
        return True

    def _look_later(self, held: Held) -> None:
        """Under a timer of its own: the connection's goes on."""
        clock = Endpoint(held, 0, 0, 0, held.e.qp_type, state=State.RELEASE_HELD)
        self._wait(clock, LOOK_MS)

    def _look_again(self, clock: Endpoint) -> None:
        held: Held = clock.owner
        if self.releases.get(held.e) is not held:
            return
        if self.now_ps < held.until_ps and held.unread():
            self._look_later(held)
        else:
            self._released(held.e)

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
