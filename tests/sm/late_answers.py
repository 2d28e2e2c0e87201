"""A manager on a virtual clock whose answers come after a random time, and which is stepped late itself."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from softib.mad.batch import MadBatch
from tests.sm.hostile import HostileWire, S

__all__ = ["LateWire"]


class LateWire(HostileWire):
    """``delay_s`` gives the seconds until an answer comes."""

    def __init__(self, seed: int, delay_s: Callable[[np.random.Generator], float], **settings):
        super().__init__(**settings)
        self.rng, self.delay_s = np.random.default_rng(seed), delay_s
        self._coming: list[tuple[int, int, MadBatch]] = []
        self._order = 0

    def run(self, seconds: float) -> int:
        """Returns the longest sleep (ps) of a manager that has something to do."""
        until, longest = self.now_ps + int(seconds * S), 0
        while self.now_ps < until:
            inbox = []
            while self._coming and self._coming[0][0] <= self.now_ps:
                inbox.append(heapq.heappop(self._coming)[2])
            outbox, deadline_ps = self.sm.step(self.now_ps, MadBatch.concat(inbox) if inbox else None)
            if len(outbox):
                self._post(self._carry(outbox))
            elif not self.sm.settled:
                longest = max(longest, deadline_ps - self.now_ps)
            wake = min([deadline_ps] + [coming[0] for coming in self._coming[:1]])
            self.now_ps = min(until, max(self.now_ps + 1 + int(self.rng.random() * 1e-3 * S), wake))
        return longest

    def _post(self, answers: MadBatch) -> None:
        for i in range(len(answers)):
            self._order += 1
            at_ps = self.now_ps + int(self.delay_s(self.rng) * S)
            heapq.heappush(self._coming, (at_ps, self._order, answers[i : i + 1]))
