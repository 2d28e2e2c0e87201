"""Repeating periods of a run: the changes of one period, and the state several periods later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.sim.packet import constants
from softib.sim.packet.kernels.hca.messages import RC, UC, UD
from softib.sim.packet.kernels.link.lifetime_limits import FOREVER, LIFE_UNIT_PS
from softib.sim.packet.moments import COUNTS, CREDITS, OF_PACKETS, ORDER, SEQUENCE, TIMES, Moment, chains, live, pending
from softib.sim.packet.phases import Phases

__all__ = ["Repetition"]


@dataclass
class Repetition:
    """A period that repeats ``times`` times, with the values that it changes and the amounts."""

    period: int
    times: int
    first: Moment
    last: Moment
    requests: np.ndarray
    responses: np.ndarray
    phases: Phases | None

    @property
    def hops(self) -> int:
        """Return the number of packet hops in a period."""
        return self.last.counts[1] - self.first.counts[1]

    @classmethod
    def of(cls, net: Any, state: Any, a: Moment, b: Moment, until: int) -> Repetition | None:
        """Return the repetition of the changes from moment ``a`` to the current moment ``b``; None if any part of them
        does not repeat."""
        period = b.at - a.at
        if a.packets != b.packets or not np.array_equal(a.timers, b.timers):
            return None
        by = _messages_moved(state, a, b)
        moved = None if by is None else _packets_moved(state, a, b, by)
        if by is None or moved is None:
            return None
        requests, responses = moved
        shift = _Shift(period, requests, responses)
        if not (_same(a.events, b.events, ("event", "entity", "payload")) and shift.holds(a.events, b.events)):
            return None
        if not (_same(a.queued, b.queued, ("queue", "place")) and shift.holds(a.queued, b.queued)):
            return None
        if not _same(a.credits, b.credits, ("row", "place", "blocks")):
            return None
        for x, y in ((a.events, b.events), (a.credits, b.credits)):
            if (x["time"] + period != y["time"]).any():
                return None
        most = _messages_last(net, state, a, requests, responses, by)
        phases = None
        if a.message is not None:
            phases = Phases.of(state, a.message, by, period)
            most = min(most, phases.times(state, requests, a.at))
        elif a.ended != b.ended:
            return None
        if most < 2 or not _posted_repeat(state, a, b, phases):
            return None
        end = min(until, _first_that_stays(net, a, b, period, phases))
        times = min(most, (end - 1 - b.at) // period)
        return cls(period, int(times), a, b, requests, responses, phases) if times >= 2 else None

    def move(self, state: Any) -> None:
        """Change ``state``, which is at the moment ``last``, to the state after all periods."""
        by, n, a, b = self.period * self.times, self.times, self.first.tables, self.last.tables
        self._move_packets(state, by)
        moving = (*TIMES.items(), *COUNTS.items(), *SEQUENCE.items(), *ORDER.items(), ("port", ("debt",)))
        for table, columns in moving:
            rows = getattr(state, table)
            for name in columns:
                rows[name] += n * (b[table][name] - a[table][name])
        for name in CREDITS:
            moved = state.vl[name] + n * (b["vl"][name] - a["vl"][name]).astype(np.int64)
            state.vl[name] = moved & constants.WRAP
        _, _, rows = chains(state.vl["credits"], state.credit["next"])
        state.credit["time"][rows] += by
        _move_events(state, by, n, self.phases)
        if self.phases is not None:
            self.phases.move(state, n)
        state.reg.left += n * (self.last.ended[0] - self.first.ended[0])
        state.reg.last += n * (self.last.ended[1] - self.first.ended[1])
        for name, before, now in zip(("events", "hops", "sent"), self.first.counts, self.last.counts, strict=True):
            state.reg[name] += n * (now - before)
        state.reg.now += by

    def _move_packets(self, state: Any, by: int) -> None:
        """Change the packets in queues and on links to those that are there after all periods."""
        _, events = pending(state)
        on_links = events[np.isin(events >> 28 & 15, OF_PACKETS)] & 0xFFFFFFF
        a, b = self.first.queued, self.last.queued
        k = np.concatenate([on_links, b["row"]])
        q = state.packet["stream"][k] >> 1
        answers = state.packet["kind"][k] == constants.READ_RESPONSE
        moved = np.where(answers, self.responses[q], self.requests[q]) * self.times
        state.packet["psn"][k] += moved.astype(np.int32)
        state.packet["tail"][on_links] += by
        for name in ("tail", "entered"):
            state.packet[name][b["row"]] += np.where(b[name] - a[name] == self.period, by, 0)


def _same(a: np.ndarray, b: np.ndarray, names: tuple[str, ...]) -> bool:
    """Return whether ``a`` and ``b`` have the same number of rows, and the same values in the columns ``names``."""
    return len(a) == len(b) and all(bool((a[name] == b[name]).all()) for name in names)


def _messages_moved(state: Any, a: Moment, b: Moment) -> np.ndarray | None:
    """Return the number of messages in a period, by queue pair and processor; None if this number is not constant."""
    change = {(t, name): b.tables[t][name] - a.tables[t][name] for t, names in ORDER.items() for name in names}
    sent = change["qp", "current_message"]
    if (change["qp", "done_message"] != sent).any():
        return None
    for key in (("qp", "rx_message"), ("rc", "response"), ("rc", "response_end")):
        if ((change[key] != 0) & (change[key] != sent)).any():
            return None
    if ((change["qp", "rx_message"] != sent) & (state.qp["service"] != UD)).any():
        return None
    if b.ended[1] - a.ended[1] not in (0, b.at - a.at):
        return None
    return np.where(sent > 0, sent, b.begun - a.begun) if a.message is not None else sent


def _posted_repeat(state: Any, a: Moment, b: Moment, phases: Phases | None) -> bool:
    """Return whether the messages that will be posted are the images of those that would be posted one period ago."""
    if phases is None:
        return np.array_equal(a.posted, b.posted)
    rows, time = a.posted["payload"], a.posted["time"]
    moves = phases.moves(rows)
    image = np.where(moves, phases.image[rows], rows)
    expected = np.stack([time + moves * phases.period, image])
    now = np.stack([b.posted["time"], b.posted["payload"]])
    return expected.shape == now.shape and np.array_equal(expected[:, np.lexsort(expected)], now[:, np.lexsort(now)])


def _packets_moved(state: Any, a: Moment, b: Moment, by: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the numbers of request packets and of response packets in a period, by queue pair; None if windows
    change."""
    moved = {
        (table, name): b.tables[table][name] - a.tables[table][name]
        for table, names in SEQUENCE.items()
        for name in names
    }
    requests, responses = moved["qp", "next_psn"], moved["rc", "response_psn"]
    for rows, name, sent, port in (("qp", "fetched", requests, "src"), ("rc", "back_fetched", responses, "dst")):
        of_port = a.tables["port"]["dma_free"][state.qp[port]]
        if ((of_port < a.tables[rows][name]) & (sent > 0)).any():  # a port fetches at least as much as its messages do
            return None
    reliable, connected = state.qp["service"] == RC, state.qp["service"] == UC
    if (moved["rc", "expected"] != np.where(reliable, requests, 0)).any():
        return None
    both = (requests > 0) & (responses > 0)  # whole messages
    if ((by == 0) & both).any() or (both & (requests != responses)).any():
        return None
    if (moved["rc", "acked"] != np.where(reliable, np.maximum(requests, responses), 0)).any():
        return None
    if (moved["unreliable", "expected"] != np.where(connected, requests, 0)).any():
        return None
    return requests, responses


@dataclass
class _Shift:
    """The increase of packet numbers in one period."""

    period: int
    requests: np.ndarray
    responses: np.ndarray

    def holds(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Return whether the packets ``b`` are the packets ``a``, shifted by one period. Rows without a packet are
        zeros."""
        if not _same(a, b, ("stream", "octets", "dlid", "sl", "vl", "came_in", "kind", "marks")):
            return False
        q = a["stream"] >> 1
        by = np.where(a["kind"] == constants.READ_RESPONSE, self.responses[q], self.requests[q])
        if (b["psn"] - a["psn"] != np.where(a["octets"] > 0, by, 0)).any():
            return False
        moved = [b[name] - a[name] for name in ("tail", "entered")]
        return all(bool(((by == 0) | (by == self.period)).all()) for by in moved)


def _messages_last(net: Any, state: Any, a: Moment, requests: np.ndarray, responses: np.ndarray, by: np.ndarray) -> int:
    """Return the number of periods until a message that is being sent has only its last packet left; 0 if such a
    message has just begun."""
    most = 1 << 40
    begun = np.where(state.qp["service"] == UC, a.tables["unreliable"]["expected"], a.tables["rc"]["acked"])
    ahead = {"current_message": (state.qp, requests, state.qp["next_psn"])}
    ahead["response"] = (state.rc, responses, state.rc["response_psn"])
    for name, (rows, moved, position) in ahead.items():
        q = np.flatnonzero((moved > 0) & (by == 0))
        if not len(q):
            continue
        m = state.message[state.order[rows[name][q]]]
        inside = begun[q] - m["psn"]
        whole = max(int(net.opt.ack_every), 1) * (256 if net.opt.ar else 1)
        if (inside * state.qp["payload"][q] < max(int(net.opt.ramp), 1)).any() or (
            name == "current_message" and (moved[q] % whole).any()
        ):
            return 0
        most = min(most, int(((m["psn"] + m["packets"] - 1 - position[q]) // moved[q]).min()))
    return most


def _first_that_stays(net: Any, a: Moment, b: Moment, period: int, phases: Phases | None) -> int:
    """Return the time of the first pending event that does not repeat with the period."""
    times = [constants.NEVER]
    if len(b.timers):
        times.append(int(b.timers["time"].min()))
    posted = b.posted if phases is None else b.posted[~phases.moves(b.posted["payload"])]
    if len(posted):
        times.append(int(posted["time"].min()))
    for table, columns in TIMES.items():
        for name in columns:
            x, y = a.tables[table][name], b.tables[table][name]
            ahead = y[(x == y) & (y > a.at)]
            if len(ahead):
                times.append(int(ahead.min()))
    vls = int(net.opt.vls)
    since, stays = b.tables["vl"]["head_since"], b.tables["vl"]["head_since"] == a.tables["vl"]["head_since"]
    port = np.arange(len(since)) // vls
    waits = stays & (b.tables["vl"]["ring"] > 0) & (net.port["kind"][port] == constants.SWITCH_PORT)
    times += _deadlines(net.port["hoq"][port[waits]], since[waits])
    still = b.queued[(b.queued["entered"] == a.queued["entered"]) & (b.queued["queue"] >= 0)]
    times += _deadlines(net.port["life"][still["came_in"]], still["entered"])
    return min(times)


def _deadlines(code: np.ndarray, since: np.ndarray) -> list[int]:
    """Return the first time at which something that has waited since ``since`` exceeds its lifetime (``code``)."""
    limited = code <= FOREVER
    if not limited.any():
        return []
    return [int((since[limited] + (LIFE_UNIT_PS << code[limited].astype(np.int64))).min())]


def _move_events(state: Any, by: int, times: int, phases: Phases | None) -> None:
    """Move all events by ``by`` and put them into the heap of distant events. Postings of messages keep their time if
    their queue pair does not send whole messages in a period."""
    at, events = pending(state)
    acts = live(state, at + by, events)
    at, events = at[acts], events[acts]
    posted = (events >> 28 & 15) == constants.POSTED
    stays = posted.copy()
    if phases is not None:
        rows = events & 0xFFFFFFF
        stays[posted] = ~phases.moves(rows[posted])
        moves = posted & ~stays
        events[moves] += phases.moved(rows[moves], times, state.order) - rows[moves]
    at = np.where(stays, at, at + by)
    order = np.lexsort((events, at))
    n, reg = len(at), state.reg
    state.later["time"][:n], state.later["what"][:n] = at[order], events[order]
    reg.later_n, reg.heap_n, reg.due_at, reg.due_n, reg.pending = n, 0, 0, 0, 0
    reg.first_scout = reg.second_scout = reg.next_block = 0
    state.bucket[:], state.used[:] = 0, 0
    state.event["next"][1:-1] = np.arange(2, len(state.event))
    state.event["next"][-1] = 0
    reg.free_event, reg.spare_events = 1, len(state.event) - 1
    reg.bucket = (int(reg.now) + by) >> int(reg.width)
