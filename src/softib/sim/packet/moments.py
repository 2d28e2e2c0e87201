"""Copies of all changing values of a packet-layer run at one time, so that two times can be compared. Packets, events
and credits are copied by value, because the same packet is in another row of its pool at another time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.sim.packet import constants
from softib.sim.packet.phases import began_by_qp
from softib.sim.packet.tables.links import COUNTERS

__all__ = ["Moment", "chains", "live", "moment", "pending", "tables_repeat"]

TIMES = {
    "port": ("free_at", "armed", "waiting", "rx_free", "dma_free", "gate"),
    "arbiter": ("drained",),
    "vl": ("head_since", "first_at", "second_at"),
    "vl_more": ("stalled",),
    "vl_wait": ("since", "busy"),
    "qp": ("not_before", "wake", "fetched"),
    "rc": ("progress", "back_fetched", "back_not_before"),
    "bound": ("sent_at",),
}
"""Columns that hold times. If a run repeats, each of these times one period later is either unchanged or later by one
period."""
FETCHED = ("dma_free", "fetched", "back_fetched")
"""Columns of :data:`TIMES` that advance by less than a period if memory is faster than the link. If all data of the
last period was fetched before the period began, these times do not limit the run, and need not repeat."""
COUNTS = {
    "port": COUNTERS,
    "rare_count": ("remote_errors", "rnr_naks", "multicast_xmit", "multicast_rcv"),
    "by_sl": ("sent", "received"),
    "vl_wait": ("ticks",),
}
"""Columns that are counters, and do not affect the run."""
CREDITS = ("fctbs", "fccl")
"""Columns of ``State.vl`` that count credits, modulo 4096."""
SEQUENCE = {"qp": ("next_psn",), "rc": ("expected", "acked", "response_psn"), "unreliable": ("expected",)}
"""Columns that increase by the number of packets that a queue pair sends in a period."""
ORDER = {"qp": ("current_message", "done_message", "rx_message"), "rc": ("response", "response_end")}
"""Columns that increase by the number of messages that a queue pair sends in a period."""
LISTS = {"vl": ("credits", "last_credit"), "vl_more": ("control", "last_control"), "voq": ("head", "tail")}
"""Columns that are rows of pools, which differ between periods; the contents of these rows are compared."""
SAME = (
    "qp",
    "rc",
    "vl",
    "port",
    "arbiter",
    "vl_more",
    "vl_wait",
    "unreliable",
    "arbitration",
    "throttle",
    "bound",
    "voq",
)
"""Tables whose remaining columns must have the same values one period later."""
OF_PACKETS = (constants.ARRIVE, constants.RECEIVE, constants.ENTER)
"""Kinds of event whose payload is a packet."""


@dataclass
class Moment:
    """Copies of all values that change during a run, at one time."""

    at: int
    ended: tuple[int, int]
    packets: tuple[int, int]
    counts: tuple[int, ...]
    tables: dict[str, np.ndarray]
    posted: np.ndarray
    events: np.ndarray
    queued: np.ndarray
    credits: np.ndarray
    timers: np.ndarray
    message: np.ndarray | None
    begun: np.ndarray


def moment(state: Any, at: int, phases: bool) -> Moment:
    """Return a copy of all values in ``state`` that change, at the time ``at``. With ``phases``, the copy includes the
    messages."""
    reg = state.reg
    tables = {name: getattr(state, name).copy() for name in sorted({*SAME, *COUNTS})}
    posted, moving = _events(state)
    timers = state.timer[: int(reg.timer_n)]
    return Moment(
        at=at,
        ended=(int(reg.left), int(reg.last)),
        packets=(int(reg.in_network), int(state.resent.sum())),
        counts=(int(reg.events), int(reg.hops), int(reg.sent)),
        tables=tables,
        posted=posted,
        events=moving,
        queued=_queued(state),
        credits=_credits(state),
        timers=np.sort(timers),
        message=state.message.copy() if phases else None,
        begun=began_by_qp(state) if phases else np.zeros(len(state.qp), np.int64),
    )


def pending(state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (time, what) of all events except timeouts."""
    reg = state.reg
    parts = [
        state.due[int(reg.due_at) : int(reg.due_n)],
        state.heap[: int(reg.heap_n)],
        state.later[: int(reg.later_n)],
    ]
    times, events = [p["time"] for p in parts], [p["what"] for p in parts]
    rows = state.bucket[np.flatnonzero(state.bucket)]
    while len(rows):
        filled = np.arange(constants.EVENTS_A_BLOCK) < state.event["count"][rows][:, None]
        times.append(state.event["time"][rows][filled])
        events.append(state.event["what"][rows][filled])
        rows = state.event["next"][rows]
        rows = rows[rows > 0]
    return np.concatenate(times), np.concatenate(events)


def live(state: Any, times: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Return which events have an effect. If a port has several LOOK events, only the one whose time is in ``armed``
    has."""
    looks = (events >> 28 & 15) == constants.LOOK
    port = np.where(looks, events >> 32, 0)
    return ~looks | (state.port["armed"][port] == times + 1)


CONTENTS = ("stream", "psn", "octets", "dlid", "sl", "vl", "came_in", "kind", "marks", "tail", "entered")
"""The columns of packets that are compared."""


def _rows(count: int, *names: str) -> np.ndarray:
    """Return rows of zeros with these columns."""
    return np.zeros(count, [(name, np.int64) for name in names])


def _events(state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays: the messages that will be posted, and all other events in order, with the contents of their
    packets."""
    times, events = pending(state)
    acts = live(state, times, events)
    times, events = times[acts], events[acts]
    rows = _rows(len(times), "time", "event", "entity", "payload", *CONTENTS)
    rows["time"], rows["event"], rows["entity"] = times, events >> 28 & 15, events >> 32
    has_packet = np.isin(rows["event"], OF_PACKETS)
    k = events[has_packet] & 0xFFFFFFF
    rows["payload"] = np.where(has_packet, 0, events & 0xFFFFFFF)
    for name in CONTENTS[:-1]:
        rows[name][has_packet] = state.packet[name][k]
    posted = rows["event"] == constants.POSTED
    order = np.lexsort([rows[name] for name in ("psn", "stream", "payload", "event", "entity", "time")])
    rows, posted = rows[order], posted[order]
    return rows[posted], rows[~posted]


def chains(first: np.ndarray, following: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (list, offset, row) of all members of lists that begin with ``first`` (0: empty)."""
    at = np.flatnonzero(first)
    rows = first[at].astype(np.int64)
    empty = np.zeros(0, np.int64)
    lists, offsets, members, offset = [empty], [empty], [empty], 0
    while len(rows):
        lists.append(at)
        offsets.append(np.full(len(rows), offset))
        members.append(rows)
        rows = following[rows].astype(np.int64)
        at, rows, offset = at[rows > 0], rows[rows > 0], offset + 1
    return np.concatenate(lists), np.concatenate(offsets), np.concatenate(members)


def _queued(state: Any) -> np.ndarray:
    """Return the packets that wait in queues of switches, and the acknowledgements that wait in end ports (these have
    not yet been on a link): for each, its queue (below 0 for end ports), its position there, its row, and its
    contents."""
    parts = []
    for at_port, first in ((False, state.voq["head"]), (True, state.vl_more["control"])):
        queue, place, k = chains(first, state.packet["next"])
        rows = _rows(len(k), "queue", "place", "row", *CONTENTS)
        rows["queue"], rows["place"], rows["row"] = -1 - queue if at_port else queue, place, k
        for name in CONTENTS:
            if not (at_port and name in ("vl", "came_in", "tail", "entered")):
                rows[name] = state.packet[name][k]
        parts.append(rows)
    return np.concatenate(parts)


def _credits(state: Any) -> np.ndarray:
    """Return the credits in transit to each port VL, except its first two."""
    row, place, c = chains(state.vl["credits"], state.credit["next"])
    rows = _rows(len(c), "row", "place", "blocks", "time")
    rows["row"], rows["place"] = row, place
    rows["blocks"], rows["time"] = state.credit["blocks"][c], state.credit["time"][c]
    return rows


def tables_repeat(a: Moment, state: Any, period: int) -> bool:
    """Return whether each value in the tables of ``state`` is a counter, equals the value in ``a``, or differs from it
    by what one period adds."""
    for table in SAME:
        x, y = a.tables[table], getattr(state, table)
        times, counts = TIMES.get(table, ()), COUNTS.get(table, ())
        skipped = {*counts, *SEQUENCE.get(table, ()), *LISTS.get(table, ()), *ORDER.get(table, ())} | (
            set(CREDITS) if table == "vl" else {"debt"} if table == "port" else set()
        )
        for name in x.dtype.names or ():
            if name in skipped:
                continue
            moved = y[name] - x[name]
            stays = moved == 0
            if name in times:
                stays |= moved == period
            if name in FETCHED:
                stays |= (moved > 0) & (moved < period) & (y[name] <= a.at)
            if not stays.all():
                return False
    before, now = ((rows["fccl"] - rows["fctbs"]) & constants.WRAP for rows in (a.tables["vl"], state.vl))
    sent = state.port["xmit_packets"] != a.tables["port"]["xmit_packets"]
    debt = state.port["debt"] - a.tables["port"]["debt"]  # the debt of a port that sends nothing stays the same
    return bool((before == now).all()) and not (sent & (debt != 0)).any()
