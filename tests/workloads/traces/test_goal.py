"""GOAL schedules: real files, text and binary alike, the laws of matching, and hostile text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.errors import InputError
from softib.sim import fluid, packet
from softib.sim.messages import Opcode, messages
from softib.workloads.hosts import hosts_of
from softib.workloads.schedule.schedule import ANY, Kind, matched
from softib.workloads.traces.forms import read_trace
from softib.workloads.traces.goal import read_goal, write_goal
from softib.workloads.workload import read
from tests.sim.packet.fabrics import tree
from tests.workloads.programs import on_hosts, same


def real(folder: Path, name: str):
    path = folder / name
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    return read_goal(path, path.read_bytes())


def text(content: str):
    return read_goal(Path("given.goal"), content.encode())


def test_a_binary_schedule_is_its_text(shared_data):
    """LogGOPSim2's own pair: 128 ranks, a binomial tree."""
    folder = shared_data / "goal2-samples"
    a = real(folder, "tests__network__binomialtreebcast_128_1024.goal")
    b = real(folder, "tests__network__binomialtreebcast_128_1024.bin")
    same(a, b)
    assert a.ranks == 128 and (a.kind == Kind.SEND).sum() == 127 == (a.kind == Kind.RECV).sum()


FILES = (
    "goal-samples/binary_tree_32.goal",
    "goal2-samples/src__schedgen__schedule.goal",
    "goal2-samples/tests__scripts__schedule.goal",
    "goal2-samples/tests__network__binomialtreebcast_128_1024.goal",
    "goal2-samples/tests__testsim__test.goal",
)


@pytest.mark.parametrize("name", FILES)
def test_real_schedules_run_and_octets_are_what_they_say(shared_data, name):
    """Every send has its receive; the run ends; what was written is read back the same."""
    s = real(shared_data, name)
    s.check()
    receive = matched(s)
    sends = s.kind == Kind.SEND
    assert np.array_equal(np.sort(receive[sends]), np.flatnonzero(s.kind == Kind.RECV))
    same(s, text(write_goal(s)))
    fabric = tree(8, 3)
    made, ended = on_hosts(s, fabric, np.arange(128))
    out = fluid.run(fabric, made, judge=False)
    assert out.done and (out.completed_ps[ended] >= 0).all()
    assert made.size[~made.computes].sum() == s.octets
    owner, needs = s.on_ends()
    assert (out.completed_ps[ended[owner]] >= out.arrived_ps[ended[needs]]).all(), "what waits ends later"


def test_a_binomial_tree_takes_seven_steps(shared_data):
    """The last of 128 ranks has the broadcast after seven hops (its path in the tree), each a message alone on its links: in both layers."""
    s = real(shared_data, "goal2-samples/tests__network__binomialtreebcast_128_1024.goal")
    fabric = tree(8, 3)
    made, _ = on_hosts(s, fabric, np.arange(128))
    a, b = fluid.run(fabric, made, judge=False), packet.run(fabric, made)
    assert a.end_ps == pytest.approx(b.end_ps, rel=0.05)


@pytest.mark.parametrize("limit", [1 << 40, 100])
def test_ping_pong_of_eager_and_rendezvous(limit):
    """send 1000 B, answer after computing 2 us: eager is two messages; rendezvous an announcement and a READ each."""
    s = text(
        "num_ranks 2\nrank 0 {\na: send 1000b to 1 tag 1\nb: recv 1000b from 1 tag 2\nb requires a\n}\n"
        "rank 1 {\na: recv 1000b from 0 tag 1\nc: calc 2000\nc requires a\nb: send 1000b to 0 tag 2\nb requires c\n}\n"
    )
    fabric = tree(4, 2)
    made, ended = on_hosts(s, fabric, [0, 7], eager_limit=limit)
    out = packet.run(fabric, made)
    once = lambda size, opcode: packet.run(fabric, messages([0], [7], size, opcode=opcode))
    step = int(once(1000, Opcode.SEND).arrived_ps[0])
    if limit < 1000:
        step = int(once(64, Opcode.SEND).arrived_ps[0]) + int(once(1000, Opcode.READ).completed_ps[0])
    assert out.completed_ps[ended[1]] == pytest.approx(2 * step + 2_000_000, abs=10_000)


def test_overheads_keep_the_processor():
    """Eight sends of one rank at once: the k-th leaves after k sender overheads."""
    sends = "".join(f"send 8b to {r} tag 0\n" for r in range(1, 8))
    others = "".join(f"rank {r} {{\nrecv 8b from 0 tag 0\n}}\n" for r in range(1, 8))
    s = text(f"num_ranks 8\nrank 0 {{\n{sends}}}\n{others}")
    fabric = tree(4, 2)
    made, _ = on_hosts(s, fabric, np.arange(8), send_ns=500)
    out = fluid.run(fabric, made, judge=False)
    began = np.sort(out.began_ps[~made.computes])
    assert began.tolist() == [500_000 * k for k in range(1, 8)]


def test_ranks_of_one_host_share_its_memory():
    s = text("num_ranks 2\nrank 0 {\nsend 1000b to 1 tag 1\n}\nrank 1 {\nrecv 1000b from 0 tag 1\n}\n")
    fabric = tree(4, 2)
    made, ended = on_hosts(s, fabric, np.arange(8), 2, memory_ns=200, memory_ps=50)
    assert made.computes.all()
    assert fluid.run(fabric, made).completed_ps[ended[1]] == 200_000 + 50_000


def test_what_requires_a_begin_waits_for_what_that_one_waits_for():
    s = text(
        "num_ranks 1\nrank 0 {\na: calc 5\nb: calc 100\nb requires a\nc: calc 1 cpu 1\nc irequires b\nd: calc 1 cpu 2\nd irequires c\n}\n"
    )
    owner, needs = s.on_ends()
    assert sorted(zip(owner.tolist(), needs.tolist(), strict=True)) == [(1, 0), (2, 0), (3, 0)]


def test_receives_from_anybody_take_what_is_left():
    s = text(
        "num_ranks 3\nrank 0 {\nrecv 8b from 1 tag 1\nrecv 8b from 2 tag 1\n}\nrank 1 {\nsend 8b to 0 tag 1\n}\nrank 2 {\nsend 8b to 0 tag 1\n}\n"
    )
    s.peer[1], s.tag[1] = ANY, ANY
    assert matched(s)[2:].tolist() == [0, 1]


HEAD = "num_ranks 2\nrank 0 {\n"
TAIL = "}\nrank 1 {\n}\n"


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("", "no num_ranks"),
        ("rank 0 {\n}", "given.goal:1: a GOAL schedule begins with num_ranks N"),
        ("num_ranks 2\nsend 8b to 1", "given.goal:2: .* outside of a rank"),
        ("num_ranks 2\nrank 2 {\n}", "rank 2 of 2"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "given.goal:4: rank 0 occurs twice"),
        (HEAD + "l1: jump 3\n" + TAIL, "given.goal:3: 'l1: jump 3' is not an operation"),
        (HEAD + "l1: calc 3\nl1: calc 4\n" + TAIL, "l1 occurs twice"),
        (HEAD + "l1: calc 3\nl1 requires l9\n" + TAIL, "given.goal:4: rank 0 has no l9"),
        (HEAD + "l1: calc 3", "rank 0 does not end"),
        (HEAD + "l1: calc 3 cpu 300\n" + TAIL, "cpu 300"),
        (HEAD + "l1: send 8b to 1 tag 0\n" + TAIL, "rank 0, l1: there is no receive"),
        (HEAD + "l1: recv 8b from 1 tag 0\n" + TAIL, "rank 0, l1: the operation never ends"),
        (HEAD + "l1: send 8b to 0 tag 0\n" + TAIL, "sends to itself"),
        (HEAD + "l1: send 8b to 7 tag 0\n" + TAIL, "names a rank that does not exist"),
        (
            HEAD + "a: calc 1\nb: calc 1\na requires b\nb requires a\n" + TAIL,
            "rank 0, a: the operation waits for itself",
        ),
        (HEAD + "send 8b to 1 tag 0\n}\nrank 1 {\nrecv 4b from 0 tag 0\n}\n", "8 bytes for a receive of 4"),
        (HEAD + "test 0 for 1\n" + TAIL, "it counts to 0"),
        (HEAD + "get 8b from 1 ct 0 tag 0\n" + TAIL, "a get of Portals"),
        (HEAD + f"l1: calc {10**19}\n" + TAIL, "given.goal:3: rank 0, l1: calc 10000000000000000000 is more than"),
        (
            HEAD + f"s: send {10**24}b to 1\n" + TAIL,
            "given.goal:3: rank 0, s: size 1000000000000000000000000 is more than 1,099,511,627,776",
        ),
        (
            HEAD + f"a: calc {2 * 10**15}\nb: calc {4 * 10**14}\nb requires a\n" + TAIL,
            "rank 0, b: brings the computation of its rank to more than 27 days",
        ),
    ],
)
def test_what_is_wrong_is_one_line(content, wrong):
    with pytest.raises(InputError, match=wrong) as error:
        matched_of = text(content)
        matched_of.check()
        matched(matched_of)
    assert "\n" not in str(error.value)


def test_times_that_overflow_are_refused_in_long_texts_too():
    """What machine code reads: 10^18 ns are more picoseconds than 64 bits hold."""
    lines = "".join(f"l{i}: calc 10\n" for i in range(1, 80_000))
    with pytest.raises(InputError, match="rank 0, l80000: calc 999999999999999999 is more than"):
        text(HEAD + lines + f"l80000: calc {10**18 - 1}\n" + TAIL)


def test_a_message_beyond_a_queue_pair_s_has_its_rank_and_operation():
    """IBA 9.7.7: a message has at most 2^31 octets."""
    s = text("num_ranks 2\nrank 0 {\nbig: send 3000000000b to 1\n}\nrank 1 {\nrecv 3000000000b from 0\n}\n")
    with pytest.raises(InputError, match="given: rank 0, big: more than 2 GiB"):
        on_hosts(s, tree(4, 2), [0, 1])


def test_damaged_binaries_are_one_line(shared_data):
    """Every cut of a real file, and 300 with random octets, is read or refused in a line."""
    path = shared_data / "goal2-samples/tests__network__binomialtreebcast_128_1024.bin"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [data[:n] for n in range(8, len(data), 997)]
    for _ in range(300):
        changed = bytearray(data)
        changed[int(rng.integers(8, len(data)))] = int(rng.integers(0, 256))
        damaged.append(bytes(changed))
    for content in damaged:
        try:
            matched(read_goal(path, content))
        except InputError as error:
            assert "\n" not in str(error)


def test_portals_counters_wait_for_what_counts(shared_data):
    """LogGOPSim2's example: a put triggers a triggered put, which a test waits for."""
    s = real(shared_data, "goal2-samples/tests__testsim__test.goal")
    owner, needs = s.on_ends()
    after = {(s.where(int(a)), s.where(int(b))) for a, b in zip(owner, needs, strict=True)}
    assert ("rank 1, l1", "rank 1, l0") in after and ("rank 3, l1", "rank 3, l0") in after


def test_what_a_user_gives(shared_data, tmp_path):
    """A file by its name, or as a pattern with options; too many ranks, and forms that are not read, are one line."""
    path = shared_data / "goal-samples/binary_tree_32.goal"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    small, large = hosts_of(tree(4, 2)), hosts_of(tree(8, 3))
    alone, _ = read(path).messages(large)
    given, jobs = read(f"trace:{path},ranks-per-host=4,send-overhead=1us,eager-limit=100").messages(small)
    assert (~alone.computes).sum() == 31 and jobs == ("binary_tree_32",)
    assert given.computes.sum() > alone.computes.sum(), "ranks of one host share its memory"
    with pytest.raises(
        InputError, match="32 ranks; 8 hosts with 1 each take 8; use more on each with ranks-per-host=4"
    ):
        read(path).messages(small)
    for name in ("dumpi-test/testtrace-0000.bin", "goal2-samples/src__schedgen__vladimir__pmpi-trace-rank-0.txt"):
        with pytest.raises(InputError, match="convert it to GOAL"):
            read_trace(shared_data / name)
        with pytest.raises(InputError, match="convert it to GOAL"):
            read(str(shared_data / name)).messages(small)  # as a command names it: no trace: before it
    with pytest.raises(InputError, match="No such file"):
        read_trace(tmp_path / "none.goal")
