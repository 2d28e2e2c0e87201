"""Both ends of a reliable multi-packet transaction (IBA 13.6) as state machines: what captures of softib are held to.

A :class:`Sender` and a :class:`Receiver` take MADs (uint8[256]) and a time and give MADs; whoever carries them calls ``step``
again at the deadline.

A message is its MAD head followed by data; ``class_header`` octets behind the RMPP header (SA: 20) are repeated in every
segment and count as payload. The states of both ends are tables below.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.iba.sa import RMPP_HEADER, RmppFlag, RmppHeader, RmppType
from softib.iba.smp import MadHeader
from softib.mad.rmpp import RMPP_END, RRESP_NONE, SA_CLASS_HEADER, WINDOW

R = RmppHeader
PAYLOAD = MAD_SIZE - RMPP_END
RESP_TIMEOUT_PS = 2 * 10**12
TRIES = 3
LONGEST = 1 << 28
"""Octets of a message at most: a length that a peer claims is not believed beyond it."""
NEVER_PS = 1 << 62


class RmppStatus(IntEnum):
    """RMPPStatus (IBA 13.6.2.3, table 185)."""

    NORMAL = 0
    RESOURCES_EXHAUSTED = 1
    TOTAL_TIME_TOO_LONG = 118
    INCONSISTENT_LAST_AND_LENGTH = 119
    INCONSISTENT_FIRST_AND_SEGMENT = 120
    BAD_TYPE = 121
    NEW_WINDOW_TOO_SMALL = 122
    SEGMENT_TOO_BIG = 123
    ILLEGAL_STATUS = 124
    BAD_VERSION = 125
    TOO_MANY_RETRIES = 126
    UNSPECIFIED = 127


class RmppState(IntEnum):
    """Of either end. A sender goes SENDING → DONE or ABORTED, a receiver RECEIVING → DONE or ABORTED."""

    SENDING = 0
    RECEIVING = 1
    DONE = 2
    ABORTED = 3


def is_rmpp(mad: np.ndarray) -> bool:
    """Does this MAD (uint8[256]) take part in a multi-packet transaction?"""
    return bool(R.flags.get(mad[RMPP_HEADER:RMPP_END]) & RmppFlag.ACTIVE)


def _header(mad: np.ndarray) -> np.ndarray:
    return mad[RMPP_HEADER:RMPP_END]


@dataclass
class _End:
    """What both ends have: their state, and why it ended."""

    state: RmppState
    status: RmppStatus = RmppStatus.NORMAL

    @property
    def over(self) -> bool:
        """Done or aborted."""
        return self.state in (RmppState.DONE, RmppState.ABORTED)

    def _abort(self, status: RmppStatus) -> None:
        self.state, self.status = RmppState.ABORTED, status


class Sender(_End):
    """Sends ``message`` (its MAD head of ``36 + class_header`` octets, then the data) in segments.

    It begins with one segment and goes on as far as the receiver's window; what is not acknowledged within
    ``timeout_ps`` is sent again from the first missing segment, ``tries`` times in all.
    """

    def __init__(
        self, message: bytes, class_header: int = SA_CLASS_HEADER, timeout_ps: int = RESP_TIMEOUT_PS, tries: int = TRIES
    ):
        super().__init__(RmppState.SENDING)
        head = RMPP_END + class_header
        if len(message) < head or len(message) > LONGEST:
            raise ValueError(f"a message has {head} to {LONGEST} octets, this one {len(message)}")
        self._head = np.frombuffer(message[:head], np.uint8)
        self._data = np.frombuffer(message[head:], np.uint8)
        self.room = MAD_SIZE - head
        self.class_header, self.timeout_ps, self.tries = class_header, timeout_ps, tries
        self.segments = max(1, -(-len(self._data) // self.room))
        self.acknowledged, self.window_last = 0, 1
        self._next, self._tried, self._deadline_ps = 1, 0, NEVER_PS

    def segment(self, number: int) -> np.ndarray:
        """Segment ``number`` (from 1) as a MAD."""
        mad = np.zeros(MAD_SIZE, np.uint8)
        mad[: len(self._head)] = self._head
        part = self._data[(number - 1) * self.room : number * self.room]
        mad[len(self._head) : len(self._head) + len(part)] = part
        flags, length = int(RmppFlag.ACTIVE), 0
        if number == 1:
            flags |= RmppFlag.FIRST
            length = len(self._data) + self.segments * self.class_header
        if number == self.segments:
            flags |= RmppFlag.LAST
            length = len(part) + self.class_header if number > 1 else length
        h = _header(mad)
        for field, value in (
            (R.version, 1),
            (R.type, int(RmppType.DATA)),
            (R.resp_time, RRESP_NONE),
            (R.flags, flags),
            (R.status, 0),
            (R.segment, number),
            (R.length, length),
        ):
            field.set(h, value)
        return mad

    def step(self, now_ps: int, inbox: list[np.ndarray] | None = None) -> tuple[list[np.ndarray], int]:
        """Take ACK, STOP and ABORT; give segments, and the time of the next call."""
        out: list[np.ndarray] = []
        for mad in inbox or []:
            self._take(mad, now_ps, out)
        if self.over:
            return out, NEVER_PS
        if now_ps >= self._deadline_ps:
            self._tried += 1
            if self._tried >= self.tries:
                self._abort(RmppStatus.TOO_MANY_RETRIES)
                out.append(_control(self._head, RmppType.ABORT, self.status))
                return out, NEVER_PS
            self._next = self.acknowledged + 1
        last = min(self.window_last, self.segments)
        if self._next <= last:
            out += [self.segment(n) for n in range(self._next, last + 1)]
            self._next, self._deadline_ps = last + 1, now_ps + self.timeout_ps
        elif now_ps >= self._deadline_ps:
            self._deadline_ps = now_ps + self.timeout_ps
        return out, self._deadline_ps

    def _take(self, mad: np.ndarray, now_ps: int, out: list[np.ndarray]) -> None:
        h = _header(mad)
        kind = int(R.type.get(h))
        if self.over or not is_rmpp(mad):
            return
        if kind in (RmppType.STOP, RmppType.ABORT):
            self._abort(_known(int(R.status.get(h))))
            return
        if kind != RmppType.ACK:
            return
        segment, window = int(R.segment.get(h)), int(R.length.get(h))
        if segment >= self._next:  # it acknowledges what was never sent
            self._refuse(RmppStatus.SEGMENT_TOO_BIG, out)
        elif window < segment:
            self._refuse(RmppStatus.NEW_WINDOW_TOO_SMALL, out)
        elif segment >= self.acknowledged:
            if segment > self.acknowledged:
                self._tried, self._deadline_ps = 0, now_ps + self.timeout_ps
            self.acknowledged, self.window_last = segment, max(window, self.window_last)
            if segment >= self.segments:
                self.state = RmppState.DONE

    def _refuse(self, status: RmppStatus, out: list[np.ndarray]) -> None:
        self._abort(status)
        out.append(_control(self._head, RmppType.ABORT, status))


class Receiver(_End):
    """Puts one message together. ``message`` is the whole (head, then data) when the state is DONE.

    Segments are taken in order; one that is missing is asked for again by an acknowledgement of the last in order.
    Nothing within ``timeout_ps``: aborted.
    """

    def __init__(
        self, class_header: int = SA_CLASS_HEADER, window: int = WINDOW, timeout_ps: int = TRIES * RESP_TIMEOUT_PS
    ):
        super().__init__(RmppState.RECEIVING)
        self.class_header, self.window, self.timeout_ps = class_header, window, timeout_ps
        self.message = b""
        self._head: np.ndarray | None = None
        self._parts: list[bytes] = []
        self._claimed = 0
        self._last_window = 1
        self._deadline_ps = NEVER_PS

    def step(self, now_ps: int, inbox: list[np.ndarray] | None = None) -> tuple[list[np.ndarray], int]:
        """Take segments; give acknowledgements or the reason to stop, and the time of the next call."""
        out: list[np.ndarray] = []
        before = len(self._parts)
        acknowledge = False
        for mad in inbox or []:
            acknowledge |= self._take(mad, now_ps, out)
        if self.state == RmppState.RECEIVING and now_ps >= self._deadline_ps:
            self._stop(RmppStatus.TOTAL_TIME_TOO_LONG, out)
        due = len(self._parts) >= self._last_window or self.state == RmppState.DONE or acknowledge
        if (
            self._head is not None
            and self.state != RmppState.ABORTED
            and due
            and (len(self._parts) > before or acknowledge)
        ):
            self._last_window = len(self._parts) + self.window
            out.append(self._ack())
        return out, NEVER_PS if self.over else self._deadline_ps

    def _take(self, mad: np.ndarray, now_ps: int, out: list[np.ndarray]) -> bool:
        """True where an acknowledgement is called for at once: a segment came twice, or one is missing."""
        h = _header(mad)
        if self.state == RmppState.ABORTED or not is_rmpp(mad):
            return False
        kind, number, flags = int(R.type.get(h)), int(R.segment.get(h)), int(R.flags.get(h))
        if kind in (RmppType.STOP, RmppType.ABORT):
            if self.state == RmppState.RECEIVING:
                self._abort(_known(int(R.status.get(h))))
            return False
        if self.state == RmppState.DONE:
            return kind == RmppType.DATA  # our last acknowledgement was lost
        if self._head is None:
            self._head = mad[: RMPP_END + self.class_header].copy()
        if int(R.version.get(h)) != 1 or kind != RmppType.DATA:
            self._stop(RmppStatus.BAD_VERSION if kind == RmppType.DATA else RmppStatus.BAD_TYPE, out)
            return False
        if bool(flags & RmppFlag.FIRST) != (number == 1):
            self._stop(RmppStatus.INCONSISTENT_FIRST_AND_SEGMENT, out)
            return False
        if number != len(self._parts) + 1:
            return True
        self._deadline_ps = now_ps + self.timeout_ps
        self._enter(mad, number, flags, int(R.length.get(h)), out)
        return False

    def _enter(self, mad: np.ndarray, number: int, flags: int, length: int, out: list[np.ndarray]) -> None:
        data = mad[RMPP_END + self.class_header :]
        if number == 1:
            self._claimed = length
            if length > LONGEST:
                self._stop(RmppStatus.RESOURCES_EXHAUSTED, out)
                return
        if flags & RmppFlag.LAST:
            size = length - self.class_header
            if not 0 <= size <= len(data):
                self._stop(RmppStatus.INCONSISTENT_LAST_AND_LENGTH, out)
                return
            data = data[:size]
        self._parts.append(data.tobytes())
        total = sum(map(len, self._parts)) if flags & RmppFlag.LAST else len(self._parts) * len(data)
        if total > LONGEST:
            self._stop(RmppStatus.RESOURCES_EXHAUSTED, out)
        elif flags & RmppFlag.LAST:
            if self._claimed and self._claimed != total + number * self.class_header:
                self._stop(RmppStatus.INCONSISTENT_LAST_AND_LENGTH, out)
                return
            assert self._head is not None
            self.message = self._head.tobytes() + b"".join(self._parts)
            self.state = RmppState.DONE

    def _ack(self) -> np.ndarray:
        assert self._head is not None
        mad = _control(self._head, RmppType.ACK, RmppStatus.NORMAL)
        R.segment.set(_header(mad), len(self._parts))
        R.length.set(_header(mad), self._last_window)
        return mad

    def _stop(self, status: RmppStatus, out: list[np.ndarray]) -> None:
        self._abort(status)
        if self._head is not None:
            out.append(
                _control(
                    self._head, RmppType.STOP if status == RmppStatus.RESOURCES_EXHAUSTED else RmppType.ABORT, status
                )
            )


def _control(head: np.ndarray, kind: RmppType, status: RmppStatus) -> np.ndarray:
    """An ACK, STOP or ABORT of the transaction that ``head`` belongs to: same method and TransactionID (IBA 13.6.2.2)."""
    mad = np.zeros(MAD_SIZE, np.uint8)
    mad[: MadHeader.size] = head[: MadHeader.size]
    mad[RMPP_HEADER:RMPP_END] = R.pack(
        version=1, type=int(kind), resp_time=RRESP_NONE, flags=int(RmppFlag.ACTIVE), status=int(status)
    )
    return mad


def _known(status: int) -> RmppStatus:
    return RmppStatus(status) if status in set(RmppStatus) else RmppStatus.UNSPECIFIED
