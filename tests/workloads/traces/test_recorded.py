"""Recorded programs as schedules: by hand, what waits for what, and that replay sends what was
posted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.errors import InputError
from softib.live.recording import HEADER, threads_in
from softib.sim import fluid
from softib.sim.messages import Opcode
from softib.sim.recorded_events import Event, RecordedThread
from softib.workloads.schedule.messages import part_of
from softib.workloads.schedule.overheads import Overheads
from softib.workloads.schedule.schedule import Kind, matched
from softib.workloads.traces.goal import read_goal, write_goal
from softib.workloads.traces.goal_binary import write_binary
from softib.workloads.traces.recorded import recorded_schedule
from tests.sim.packet.fabrics import tree
from tests.workloads.programs import on_hosts, same

RC, UD = 2, 4
WRITE, SEND, READ = 0, 2, 4

VERSION = HEADER.constant("RECORD_VERSION")


def thread(pid: int, *events: tuple[int, ...], rank: int | None = None, tid: int = 0) -> RecordedThread:
    """Events are (ns, computed ns, type, opcode, qpn, peer, octets)."""
    columns = np.array(events, np.int64).reshape(-1, 7).T
    return RecordedThread(
        pid, tid or pid, rank, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5], columns[6]
    )


def qp(ns: int, number: int, kind: int = RC) -> tuple[int, ...]:
    return (ns, 0, Event.QP, kind, number, 0, 0)


def ends(r):
    """By operation: the operations that it waits for."""
    s = r.schedule
    return [sorted(s.needs[s.first[i] : s.first[i + 1]].tolist()) for i in range(len(s))]


def test_codes_are_those_of_the_header():
    assert {e.name: int(e) for e in Event} == {e.name: HEADER.constant(f"EVENT_{e.name}") for e in Event}


def test_a_round_trip_waits_for_what_was_polled():
    """Rank 0 computes 500 ns and sends 64 octets; rank 1 polls them, computes 300 ns, answers 32."""
    a = thread(7, qp(0, 5), (100, 500, Event.POST, SEND, 5, 6, 64), (900, 510, Event.RECEIVED, 128, 5, 0, 32))
    b = thread(8, qp(10, 6), (400, 0, Event.RECEIVED, 128, 6, 0, 64), (700, 300, Event.POST, SEND, 6, 5, 32))
    found = recorded_schedule("x", [a, b])
    s = found.schedule
    assert (found.messages, found.unknown, found.local, s.octets, s.acknowledged) == (2, 0, 0, 96, True)
    matched(s)
    rows = [(int(s.rank[i]), Kind(int(s.kind[i])).name, int(s.size[i]), int(s.compute_ps[i])) for i in range(len(s))]
    recv, calc, send = (rows.index(w) for w in ((1, "RECV", 64, 0), (1, "COMPUTE", 0, 300_000), (1, "SEND", 32, 0)))
    assert ends(found)[calc] == [recv] and ends(found)[send] == [calc]
    made, ended = on_hosts(s, tree(4, 2), np.arange(2))
    out = fluid.run(tree(4, 2), made, judge=False)
    alone = [int(out.arrived_ps[i] - out.began_ps[i]) for i in np.flatnonzero(made.opcode != Opcode.COMPUTE)]
    assert out.done and out.completed_ps[ended].max() >= 800_000 + sum(alone)


def test_a_read_brings_its_octets_back_and_what_follows_its_completion_waits_for_them():
    a = thread(
        7,
        qp(0, 5),
        (100, 0, Event.POST, READ, 5, 6, 4096),
        (900, 0, Event.SENT, 2, 5, 0, 1),
        (950, 0, Event.POST, SEND, 5, 6, 8),
    )
    found = recorded_schedule("x", [a, thread(8, qp(1, 6))])
    s = found.schedule
    matched(s)
    assert s.octets == 4096 + 8 and s.octets - 8 == int(s.size[(s.rank == 1) & (s.kind == Kind.SEND)].sum())
    send = int(np.flatnonzero((s.kind == Kind.SEND) & (s.size == 8))[0])
    (awaited,) = ends(found)[send]
    assert s.size[awaited] == 4096 and s.kind[awaited] == Kind.RECV
    part_of(s, np.array([0, 1]), Overheads())


def test_what_is_posted_behind_a_write_from_another_rank_waits_for_it():
    """ib_write_lat: nothing but memory says that the peer's WRITE is there."""
    a = thread(7, qp(0, 5), (100, 0, Event.POST, WRITE, 5, 6, 2), (500, 0, Event.POST, WRITE, 5, 6, 2))
    b = thread(8, qp(1, 6), (300, 0, Event.POST, WRITE, 6, 5, 2))
    found = recorded_schedule("x", [a, b])
    s = found.schedule
    for i in np.flatnonzero(s.kind == Kind.SEND)[1:]:
        assert [Kind(int(s.kind[k])) for k in ends(found)[i]] == [Kind.RECV]
    matched(s)


def test_datagrams_that_were_dropped_are_passed_over():
    """Three sent, the second of another length never came: the receive of the third is that of the
    third."""
    a = thread(7, qp(0, 5, UD), *((t, 0, Event.POST, SEND, 5, 6, n) for t, n in ((10, 100), (20, 200), (30, 300))))
    b = thread(
        8,
        qp(1, 6, UD),
        (40, 0, Event.RECEIVED, 128, 6, 5, 140),
        (50, 0, Event.RECEIVED, 128, 6, 5, 340),
        (60, 9, Event.POST, SEND, 6, 5, 1),
    )
    found = recorded_schedule("x", [a, b])
    s = found.schedule
    calc = int(np.flatnonzero(s.kind == Kind.COMPUTE)[-1])
    assert sorted(int(s.size[k]) for k in ends(found)[calc]) == [100, 300] and s.octets == 601


def test_threads_of_a_rank_take_the_messages_of_one_queue_by_time():
    """UCX: the program's thread polls the first and the third of three acknowledgements, the
    asynchronous thread the second; rank 0 sends each when it has the answer to the one before."""
    a = thread(
        7,
        qp(0, 5, UD),
        (10, 0, Event.POST, SEND, 5, 6, 8),
        (40, 0, Event.RECEIVED, 128, 5, 6, 48),
        (50, 0, Event.POST, SEND, 5, 6, 8),
        (80, 0, Event.RECEIVED, 128, 5, 6, 48),
        (90, 0, Event.POST, SEND, 5, 6, 8),
    )
    program = thread(
        8,
        qp(1, 6, UD),
        (20, 0, Event.RECEIVED, 128, 6, 5, 48),
        (30, 0, Event.POST, SEND, 6, 5, 8),
        (100, 0, Event.RECEIVED, 128, 6, 5, 48),
        (110, 0, Event.POST, SEND, 6, 5, 9),
    )
    other = thread(8, (60, 0, Event.RECEIVED, 128, 6, 5, 48), (70, 0, Event.POST, SEND, 6, 5, 8), tid=9)
    for threads in ([a, program, other], [a, other, program]):
        s = (found := recorded_schedule("x", threads)).schedule
        part_of(s, np.array([0, 1]), Overheads())
        (joined,) = ends(found)[int(np.flatnonzero((s.kind == Kind.SEND) & (s.size == 9))[0])]
        _, second, third = np.flatnonzero((s.rank == 1) & (s.kind == Kind.RECV)).tolist()
        assert third in ends(found)[joined] and second not in ends(found)[joined]


def test_a_completion_of_what_another_thread_posted_is_waited_for():
    a = thread(7, qp(0, 5), (30, 0, Event.SENT, 0, 5, 0, 1), (40, 0, Event.POST, SEND, 5, 6, 9))
    poster = thread(7, (10, 0, Event.POST, SEND, 5, 6, 8), tid=9)
    s = recorded_schedule("x", [a, poster, thread(8, qp(1, 6))]).schedule
    first, last = (int(np.flatnonzero((s.kind == Kind.SEND) & (s.size == n))[0]) for n in (8, 9))
    assert s.needs[s.first[last] : s.first[last + 1]].tolist() == [first]


def test_a_number_of_a_queue_pair_that_is_given_again():
    """QP 6 is rank 1's, then rank 2's."""
    a = thread(7, qp(0, 5), (10, 0, Event.POST, SEND, 5, 6, 100), (30, 0, Event.POST, SEND, 5, 6, 200))
    s = recorded_schedule("x", [a, thread(8, qp(1, 6)), thread(9, qp(20, 6))]).schedule
    assert s.size[s.rank == 1].tolist() == [100] and s.size[s.rank == 2].tolist() == [200]


def test_ranks_are_the_launcher_s_where_it_says_them():
    """Ranks 3 and 1 of a job in which 0 and 2 did nothing."""
    a = thread(7, qp(0, 5), (10, 0, Event.POST, SEND, 5, 6, 100), rank=3)
    s = recorded_schedule("x", [a, thread(8, qp(1, 6), rank=1)]).schedule
    assert s.ranks == 4 and s.rank[s.kind == Kind.SEND].tolist() == [3]


def test_what_nobody_recorded_is_counted_and_left_out():
    a = thread(
        7,
        qp(0, 5),
        qp(0, 4),
        (10, 0, Event.POST, SEND, 5, 99, 100),
        (20, 0, Event.POST, SEND, 5, 4, 7),
        (30, 0, Event.POST, 8, 5, 6, 0),
    )
    found = recorded_schedule("x", [a, thread(8, qp(1, 6))])
    assert (found.messages, found.unknown, found.local) == (0, 1, 1)
    with pytest.raises(InputError, match="nothing was recorded"):
        recorded_schedule("x.goal", [])


def test_collectives_are_comments_before_their_operations():
    a = thread(
        7,
        qp(0, 5),
        (10, 0, Event.BEGIN, 0, 1, 0, 64),
        (20, 0, Event.POST, SEND, 5, 6, 64),
        (30, 5, Event.END, 0, 1, 0, 64),
    )
    found = recorded_schedule("x", [a, thread(8, qp(1, 6))], ("barrier", "allreduce"))
    text = write_goal(found.schedule, found.notes)
    assert "// begin allreduce 64\nl1: send 64b to 1" in text
    same(read_goal(Path("x.goal"), text.encode()), found.schedule)
    assert read_goal(Path("x.goal"), text.encode()).acknowledged


def test_collectives_of_two_ranks_at_once_stand_in_their_own_ranks():
    both = [
        thread(
            pid,
            qp(pid, mine),
            (at, 0, Event.BEGIN, 0, 1, 0, 64),
            (at + 20, 0, Event.POST, SEND, mine, 11 - mine, size),
            (at + 40, 0, Event.END, 0, 1, 0, 64),
        )
        for pid, mine, at, size in ((7, 5, 20, 100), (8, 6, 25, 200))
    ]
    text = write_goal((found := recorded_schedule("x", both, ("barrier", "allreduce"))).schedule, found.notes)
    for size, part in zip((100, 200), text.split("rank ")[1:], strict=True):
        begin, end = part.index("// begin allreduce 64"), part.index("// end allreduce 64")
        assert begin < part.index(f"send {size}b") < end and part.count("//") == 2


@pytest.mark.parametrize("ranks", [1, 5])
def test_binary_is_read_back_as_it_was_written(ranks):
    """Random schedules with every kind of dependency."""
    rng = np.random.default_rng(ranks)
    lines = [f"num_ranks {ranks}"]
    for r in range(ranks):
        lines.append(f"rank {r} {{")
        for k in range(20):
            other = (r + 1) % ranks
            lines.append(
                f"l{k}: calc {k * 7} cpu {k % 3}" if ranks == 1 or k % 2 else f"l{k}: send {k + 1}b to {other} tag {k}"
            )
            lines += (
                [
                    f"l{k} {word} l{on}"
                    for on, word in {int(rng.integers(k)): w for w in ("requires", "irequires")}.items()
                ]
                if k
                else []
            )
        if ranks > 1:
            lines += [f"r{k}: recv {k + 1}b from {(r - 1) % ranks} tag {k}" for k in range(0, 20, 2)]
        lines.append("}")
    s = read_goal(Path("x.goal"), "\n".join(lines).encode())
    back = read_goal(Path("x.bin"), write_binary(s))
    same(s, back)
    assert np.array_equal(np.sort(s.on_start), np.sort(back.on_start))


def test_a_file_that_was_not_ours_or_had_no_room(tmp_path):
    head = np.zeros(1, HEADER.types()["softib_record_head"])
    event = np.zeros(2, HEADER.types()["softib_record_event"])
    event["type"][0], event["qpn"][0] = Event.QP, 5
    head["magic"], head["version"], head["ticks"], head["ns"] = b"SOFTIBr", VERSION, [[0, 100]], [[0, 100]]
    write = lambda: (tmp_path / "1-1.events").write_bytes(head.tobytes().ljust(65536, b"\0") + event.tobytes())
    write()
    (found,) = threads_in(tmp_path)
    assert found.qpn.tolist() == [5] and found.rank == 0
    head["lost"] = 3
    write()
    with pytest.raises(InputError, match="3 events were lost"):
        threads_in(tmp_path)
    head["version"] = 9
    write()
    with pytest.raises(InputError, match="of another version of softib"):
        threads_in(tmp_path)


def test_clocks_are_related_by_the_thread_that_was_there_longest(tmp_path):
    """A program that was killed read both clocks only when it began, 100 ticks apart by a clock
    that was late by 70 ns."""
    event = np.zeros(2, HEADER.types()["softib_record_event"])
    event["type"][0], event["qpn"][0], event["ticks"][0] = Event.QP, 5, 2_000_000
    for pid, last in ((1, (10_000_000, 5_000_000)), (2, (100, 120))):
        head = np.zeros(1, HEADER.types()["softib_record_head"])
        head["magic"], head["version"], head["pid"], head["rank"] = b"SOFTIBr", VERSION, pid, pid
        head["ticks"], head["ns"] = [[0, last[0]]], [[0, last[1]]]
        (tmp_path / f"{pid}-{pid}.events").write_bytes(head.tobytes().ljust(65536, b"\0") + event.tobytes())
    assert [t.ns.tolist() for t in threads_in(tmp_path)] == [[1_000_000], [1_000_000]]


def test_messages_of_a_queue_pair_never_wait_behind_what_waits_for_them():
    """The first send of the program waits for an answer to the second, on the same pair of ranks."""
    s = read_goal(
        Path("x.goal"),
        b"""num_ranks 2
rank 0 {
a: send 8b to 1 tag 1
b: send 8b to 1 tag 2
c: recv 8b from 1 tag 3
a requires c
}
rank 1 {
d: recv 8b from 0 tag 2
e: send 8b to 0 tag 3
e requires d
f: recv 8b from 0 tag 1
}
""",
    )
    made, _ = on_hosts(s, tree(4, 2), np.arange(2))
    assert fluid.run(tree(4, 2), made, judge=False).done


def test_ranks_that_wait_for_each_other_for_ever_are_named_before_a_run():
    s = read_goal(
        Path("x.goal"),
        b"""num_ranks 2
rank 0 {
a: recv 8b from 1
b: send 8b to 1
b requires a
}
rank 1 {
c: recv 8b from 0
d: send 8b to 0
d requires c
}
""",
    )
    with pytest.raises(InputError, match=r"rank \d, [abcd]: the operation waits for itself, through other ranks"):
        part_of(s, np.array([0, 1]), Overheads())
