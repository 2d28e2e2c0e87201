"""Messages of a repeating period. The image of a message is the message of the same kind one period later. The messages
that wait for the image must be the images of those that wait for the message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.ragged import spread
from softib.sim.packet import constants
from softib.sim.packet.kernels.hca.messages import COMPUTE_OP

__all__ = ["Phases", "began_by_qp", "message_periods"]

ALIKE = ("length", "packets", "opcode", "lid", "immediate", "delay", "group", "receive")
"""Columns that a message shares with its image."""
TIMES = {"posted": 0, "began": -1, "arrived": -1, "completed": -1, "after": 0}
"""Columns that hold times, and the value of each before its event has happened."""
LONGEST = 32
"""Largest number of messages of a queue pair in a period."""


def began_by_qp(state: Any) -> np.ndarray:
    """Return the number of messages (computations) that have begun, by queue pair (processor)."""
    begun = state.message["began"] >= 0
    return np.bincount(state.message["qp"][begun], minlength=len(state.qp))


def message_periods(state: Any) -> list[int]:
    """Return possible periods in messages of a queue pair that has many, the shortest first."""
    q = state.qp
    if not len(state.order):
        return []
    computes = state.message["opcode"][state.order[np.minimum(q["first_message"], len(state.order) - 1)]] == COMPUTE_OP
    left = np.where(computes, 0, q["last_message"] - q["current_message"])
    at = int(np.argmax(left))
    done = state.order[int(q["first_message"][at]) : int(q["current_message"][at])]
    times = state.message["began"][done]
    times = times[times >= 0][-3 * LONGEST :]
    periods = []
    for n in range(1, min(LONGEST, (len(times) - 1) // 2) + 1):
        last, before = times[-1] - times[-1 - n], times[-1 - n] - times[-1 - 2 * n]
        if last == before and last > 0 and left[at] > 4 * n:
            periods.append(int(last))
    return periods


@dataclass
class Phases:
    """``by``: number of messages of a period, by queue pair and processor; ``image``: for each message, the row of its
    image (-1: none)."""

    period: int
    by: np.ndarray
    image: np.ndarray
    before: np.ndarray

    @classmethod
    def of(cls, state: Any, before: np.ndarray, by: np.ndarray, period: int) -> Phases:
        """Return images of all messages; ``before``: ``State.message`` a period ago."""
        message, order = state.message, state.order
        place = np.arange(len(order)) + by[message["qp"][order]]
        inside = place < state.qp["last_message"][message["qp"][order]]
        image = np.full(len(message), -1)
        image[order[inside]] = order[place[inside]]
        return cls(period, by, image, before)

    def moves(self, rows: np.ndarray) -> np.ndarray:
        """Return which of the messages ``rows`` belong to queue pairs that send whole messages in a period."""
        return self.by[self.before["qp"][rows]] > 0

    def times(self, state: Any, requests: np.ndarray, at: int) -> int:
        """Return the number of periods for which all messages repeat; 0 if an image is not in the state that its
        message had one period ago."""
        fits = self._alike(state, requests, at)
        most = constants.NEVER
        every = np.arange(len(self.image))
        moving, now = self.moves(every) & (len(every) > 0), state.message
        touched = (now["after"] != 0) | (now["posted"] != 0) | (now["began"] >= 0)
        for q in np.flatnonzero(self.by):
            rows = state.order[int(state.qp["first_message"][q]) : int(state.qp["last_message"][q])]
            first, end = self._unfinished(rows), int(np.flatnonzero(touched[rows])[-1]) + 1
            same = fits[rows]
            same[: max(first - 1, 0)] = True
            wrong = np.flatnonzero(~same)
            until = int(wrong[0]) if len(wrong) else len(rows)
            most = min(most, (until - end) // int(self.by[q]) - 1)
            if most < 2 or not self._same_state(state, rows[max(first - 1, 0) : end]):
                return 0
        still = ~moving
        less = self.before["needs"][still] - now["needs"][still]
        for name in TIMES:
            moved = now[name][still] - self.before[name][still]
            if ((moved != 0) & ~((less > 0) & (moved == self.period) & (name == "after"))).any():
                return 0
        if (less > 0).any():
            most = min(most, int(((now["needs"][still][less > 0] - 1) // less[less > 0]).min()))
        return max(most, 0)

    def _unfinished(self, rows: np.ndarray) -> int:
        """Return the position in ``rows`` of the first message that was incomplete one period ago."""
        open_ = np.flatnonzero(self.before["completed"][rows] < 0)
        return int(open_[0]) if len(open_) else len(rows)

    def _same_state(self, state: Any, rows: np.ndarray) -> bool:
        """Return whether the image of each of ``rows`` is now in the state that the row had one period ago."""
        image = self.image[rows]
        if (image < 0).any():
            return False
        was, now = self.before[rows], state.message[image]
        if (was["needs"] != now["needs"]).any():
            return False
        return all(
            bool((now[name] == np.where(was[name] == empty, empty, was[name] + self.period)).all())
            for name, empty in TIMES.items()
        )

    def _alike(self, state: Any, requests: np.ndarray, at: int) -> np.ndarray:
        """Return bool[messages]: whether a message has an image of the same kind, and the messages that wait for the
        image are the images of those that wait for the message."""
        message, image = state.message, self.image
        there = image >= 0
        to = np.where(there, image, 0)
        fits = there & (message["start"][to] <= at) & (message["receive"] == 0)
        for name in ALIKE:
            fits &= message[name] == message[name][to]
        computes = message["opcode"] == COMPUTE_OP  # has no packets
        fits &= computes | (message["psn"][to] - message["psn"] == requests[message["qp"]])
        waiting = np.zeros(len(message), np.int64)
        for first, after in ((state.arrival, state.after_arrival), (state.completion, state.after_completion)):
            n = len(first) - 1
            count = np.diff(first)
            owner, _ = spread(count)
            after = after[: len(owner)]
            waiting += np.bincount(after, minlength=len(message))
            fits[:n] &= count == count[np.minimum(to[:n], n - 1)]
            pairs = owner * len(message) + after
            images = np.where(image[after] >= 0, to[owner] * len(message) + image[after], -1)
            fits[owner[~np.isin(images, pairs)]] = False
        return fits & (waiting == waiting[to])

    def move(self, state: Any, times: int) -> None:
        """Skip ``times`` periods: give each image the state that its message has now, shifted by this time."""
        now = state.message.copy()
        for q in np.flatnonzero(self.by):
            rows = state.order[int(state.qp["first_message"][q]) : int(state.qp["last_message"][q])]
            by, first = int(self.by[q]), self._unfinished(rows)
            place = np.arange(first + by, len(rows))
            k = np.minimum((place - first) // by, times)
            source = now[rows[place - k * by]]
            for name, empty in TIMES.items():
                moved = np.where(source[name] == empty, empty, source[name] + k * self.period)
                state.message[name][rows[place]] = moved
            state.message["needs"][rows[place]] = source["needs"]
        still = ~self.moves(np.arange(len(now)))
        for name in ("needs", "after"):
            state.message[name][still] += times * (now[name] - self.before[name])[still]

    def moved(self, rows: np.ndarray, times: int, order: np.ndarray) -> np.ndarray:
        """Return the messages that follow ``rows`` by ``times`` periods."""
        where = np.empty(len(order), np.int64)
        where[order] = np.arange(len(order))
        return np.asarray(order[where[rows] + times * self.by[self.before["qp"][rows]]])
