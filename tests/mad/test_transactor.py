"""The transactor against a scripted wire: what it promises about windows, time, retries and strangers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.smp import MadHeader
from softib.mad.batch import MadBatch
from softib.mad.transactor import NEVER_PS, Transactor
from tests.extent import examples

MS = 1_000_000_000
H = MadHeader


def requests(n: int, attr: int = SmpAttr.NODE_INFO) -> MadBatch:
    batch = MadBatch.zeros(n)
    H.base_version.set(batch.mad, 1)
    H.mgmt_class.set(batch.mad, int(MgmtClass.SUBN_DR))
    H.method.set(batch.mad, 1)
    H.attr_id.set(batch.mad, int(attr))
    return batch


def answers(out: MadBatch, rows=slice(None)) -> MadBatch:
    picked = out[rows]
    reply = MadBatch.zeros(len(picked))
    reply.mad[:] = picked.mad
    H.method.set(reply.mad, 0x81)
    reply.tid = picked.tid.copy()
    return reply


def finished(t: Transactor) -> tuple[list[int], list[int]]:
    good, lost = [], []
    for done in t.completed():
        (lost if done.timed_out else good).extend(done.tags.tolist())
    return good, lost


def test_window_limits_what_is_on_the_wire_and_order_is_kept():
    t = Transactor(window=4)
    t.submit(requests(10), np.arange(10) + 100)
    out, deadline = t.step(0)
    assert len(out) == 4 and deadline == 20 * MS  # a tenth of 200 ms: then the window opens again
    sent = [*out.tid.tolist()]
    seen = []
    while t.busy:
        out, _ = t.step(1, answers(out))
        assert len(out) <= 4
        sent += out.tid.tolist()
        seen += finished(t)[0]
    assert seen == list(range(100, 110))
    assert sent == sorted(sent) and len(set(sent)) == 10
    assert t.step(2)[1] == NEVER_PS


def test_tids_are_on_the_wire_big_endian_below_2_to_the_32():
    t = Transactor(window=100)
    t.submit(requests(3), np.arange(3))
    out, _ = t.step(0)
    assert H.tid.get(out.mad).tolist() == out.tid.tolist()
    assert out.tid.max() < 1 << 32


def test_upper_half_of_the_tid_belongs_to_umad():
    t = Transactor()
    t.submit(requests(2), np.array([7, 8]))
    out, _ = t.step(0)
    reply = answers(out)
    reply.mad[:, 8:12] = (0, 5, 0, 3)
    t.step(1, reply)
    assert finished(t) == ([7, 8], [])


def test_silence_costs_800_ms_and_four_sends_then_the_request_comes_back():
    t = Transactor(window=4, timeout_ps=200 * MS, retries=3)
    t.submit(requests(1), np.array([42]))
    sends, now, deadline = [], 0, 0
    while t.busy:
        out, deadline = t.step(now)
        if len(out):
            sends.append(now)
            assert out.tid[0] == 1
        if t.busy:
            now = deadline
    assert sends == [0, 200 * MS, 400 * MS, 600 * MS]
    assert now == 800 * MS
    assert finished(t) == ([], [42])
    assert (t.sent, t.retried, t.timeouts) == (4, 3, 1)


def test_an_answer_to_a_retry_counts_once():
    t = Transactor(retries=3)
    t.submit(requests(1), np.array([5]))
    first, _ = t.step(0)
    second, _ = t.step(200 * MS)
    assert len(second) == 1
    t.step(201 * MS, MadBatch.concat([answers(first), answers(second)]))
    assert finished(t) == ([5], [])
    assert t.strays == 1 and not t.busy


def test_an_answer_that_comes_while_the_retry_waits_cancels_it():
    t = Transactor(window=1, timeout_ps=100, retries=3)
    t.submit(requests(2), np.array([1, 2]))
    first, _ = t.step(0)
    other, _ = t.step(10)  # grace over: the second request leaves
    assert len(first) == len(other) == 1
    out, _ = t.step(109, answers(first))
    assert len(out) == 0 and finished(t) == ([1], [])
    t.step(111, answers(other))
    assert finished(t) == ([2], []) and not t.busy


@pytest.mark.parametrize("fed", ["at once", "as there is room"])
def test_one_silent_node_delays_nobody(fed):
    """A thousand requests, the first 40 to a dead node, 4 on the wire, 10 us a round trip: the others are done in the
    time they need, not behind 40 x 800 ms / 4."""
    t = Transactor(window=4)
    given = 1000 if fed == "at once" else 0
    t.submit(requests(given), np.arange(given))
    now, inbox, last_good = 0, None, 0
    lost: list[int] = []
    while t.busy or given < 1000:
        t.receive(now, inbox)
        if room := min(t.room, 1000 - given):
            t.submit(requests(room), np.arange(given, given + room))
            given += room
        out, deadline = t.send(now)
        good, gone = finished(t)
        lost += gone
        if good:
            last_good = now
        alive = out.tid > 40
        inbox = answers(out, alive) if alive.any() else None
        now = now + 10_000_000 if inbox is not None else deadline
    assert sorted(lost) == list(range(40))
    assert last_good < 300 * MS  # 10 graces of 20 ms for 40 dead ones by four, and the rest at wire speed
    assert t.timeouts == 40


@pytest.mark.parametrize(
    "spoil",
    [
        lambda m: H.method.set(m, 1),  # no response
        lambda m: H.tid.set(m, 999),  # nobody's TID
        lambda m: H.tid.set(m, 0),
        lambda m: H.attr_id.set(m, 0x15),  # answers something else
        lambda m: H.mgmt_class.set(m, 4),
        lambda m: H.status.set(m, 1),  # busy: ask again later
    ],
)
def test_strangers_finish_nothing(spoil):
    t = Transactor()
    t.submit(requests(1), np.array([3]))
    out, _ = t.step(0)
    bad = answers(out)
    spoil(bad.mad)
    t.step(1, bad)
    assert t.busy and finished(t) == ([], []) and t.strays == 1
    t.step(2, answers(out))
    assert finished(t) == ([3], [])


def test_answers_before_the_question_are_strays():
    t = Transactor(window=1)
    t.submit(requests(2), np.arange(2))
    out, _ = t.step(0)
    early = answers(MadBatch.concat([out, out]))
    H.tid.set(early.mad, np.array([1, 2]))
    t.receive(1, early)
    assert finished(t) == ([0], []) and t.strays == 1


@settings(max_examples=examples(60), deadline=None)
@given(
    window=st.integers(1, 9),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    seed=st.integers(0, 1 << 30),
    loss=st.sampled_from([0.0, 0.2, 0.7]),
)
def test_every_request_ends_exactly_once_whatever_the_wire_does(window, sizes, seed, loss):
    """Loss, reordering, duplication and delay: each tag comes back once, as an answer or as a timeout."""
    rng = np.random.default_rng(seed)
    t = Transactor(window=window, timeout_ps=1000, retries=2)
    total = sum(sizes)
    first, pending, good, lost, now = 0, [], [], [], 0
    todo = list(sizes)
    for _ in range(20_000):
        if todo and rng.random() < 0.5:
            n = todo.pop()
            t.submit(requests(n), np.arange(first, first + n))
            first += n
        due = [p for p in pending if p[0] <= now]
        pending = [p for p in pending if p[0] > now]
        inbox = MadBatch.concat([p[1] for p in due]) if due else None
        out, _ = t.step(now, inbox)
        g, gone = finished(t)
        good += g
        lost += gone
        for i in rng.permutation(len(out)):
            if rng.random() >= loss:
                one = answers(out, np.array([i]))
                pending += [(now + int(rng.integers(1, 2500)), one)] * (1 + int(rng.random() < 0.1))
        now += int(rng.integers(1, 200))
        if not todo and not t.busy:
            break
    assert sorted(good + lost) == list(range(total))
    assert t.room == window
    if loss == 0.0:
        assert t.sent >= total


def test_bad_settings_are_refused():
    for bad in ({"window": 0}, {"timeout_ps": 0}, {"retries": -1}):
        with pytest.raises(ValueError):
            Transactor(**bad)


def test_answers_to_abandoned_requests_are_strays():
    t = Transactor(window=3)
    t.submit(requests(5), np.arange(5))
    out, _ = t.step(0)
    t.abandon()
    assert not t.busy and t.room == 3
    t.submit(requests(2), np.array([8, 9]))
    again, _ = t.step(1, answers(out))
    assert finished(t) == ([], []) and t.strays == 3
    t.step(2, answers(again))
    assert finished(t) == ([8, 9], [])


def test_time_in_which_nobody_listened_is_not_counted():
    t = Transactor(timeout_ps=200 * MS)
    t.submit(requests(2), np.array([7, 8]))
    first, _ = t.step(0)
    t.postpone(5000 * MS)
    out, deadline = t.step(5010 * MS)
    assert len(out) == 0 and deadline == 5020 * MS  # the grace
    out, _ = t.step(5200 * MS, answers(first, slice(0, 1)))
    assert finished(t) == ([7], []) and out.tid.tolist() == [2] and t.retried == 1
