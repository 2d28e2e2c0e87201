"""The LogGOPS layer: closed forms on a fabric without load, the fluid layer where nothing is
congested, and 10,000 random programs' worth of order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.sim.loggops import matches
from softib.workloads.traces.goal import read_goal


@pytest.fixture(scope="module")
def fabric():
    return softib.generate("fat-tree", radix=4, levels=2)


def replay(fabric, text: str, **options):
    return softib.replay(fabric, read_goal(Path("x.goal"), text.encode()), options=options)


def fluid(fabric, text: str, tmp_path, options: str = ""):
    (tmp_path / "x.goal").write_text(text)
    run = softib.simulate(fabric, f"trace:{tmp_path / 'x.goal'}{options}")
    assert run.good
    return float(run._details.outcome.arrived_ps.max()) / 1e6  # computations, too


PING = (
    "num_ranks 2\nrank 0 {{\na: calc 5000\nb: send {n}b to 1\nb requires a\n}}\nrank 1 {{\nc: recv {n}b from 0\nd: "
    "calc 700\nd requires c\n}}\n"
)


@pytest.mark.parametrize("size", [1, 100, 4096, 1_000_000])
def test_a_message_that_is_alone_takes_what_it_takes_in_the_fluid_layer(fabric, tmp_path, size):
    text = PING.format(n=size)
    assert replay(fabric, text).simulated_us == pytest.approx(fluid(fabric, text, tmp_path), rel=0.02)


def test_overheads_occupy_the_processor_and_two_computations_take_turns(fabric):
    """Two computations of 3 us on one processor, one beside them on another: 6 us; a send costs 2
    us of the first processor more."""
    text = "num_ranks 2\nrank 0 {\na: calc 3000\nb: calc 3000\nc: calc 5000 cpu 1\n}\nrank 1 {\n}\n"
    assert replay(fabric, text).simulated_us == 6.0
    plain, costly = (
        replay(fabric, PING.format(n=8), send_overhead=o, receive_overhead=o).simulated_us for o in ("0", "2us")
    )
    assert costly - plain == pytest.approx(4.0, abs=1e-6)


def test_an_adapter_sends_and_receives_one_message_after_another(fabric):
    """Three of 1 MB from one rank, and three to one rank: three times the wire's time each; the
    fabric itself is wide enough."""
    one = replay(fabric, PING.format(n=1_000_000)).simulated_us - 5.7
    out = "num_ranks 4\nrank 0 {\n" + "".join(f"send 1000000b to {k}\n" for k in (1, 2, 3)) + "}\n"
    out += "".join(f"rank {k} {{\nrecv 1000000b from 0\n}}\n" for k in (1, 2, 3))
    into = "num_ranks 4\nrank 0 {\n" + "".join(f"recv 1000000b from {k}\n" for k in (1, 2, 3)) + "}\n"
    into += "".join(f"rank {k} {{\nsend 1000000b to 0\n}}\n" for k in (1, 2, 3))
    for text in (out, into):
        assert replay(fabric, text).simulated_us == pytest.approx(3 * one, rel=0.05)


@pytest.mark.parametrize("layout", ["before", "within", "behind"])
def test_short_messages_beside_a_long_one_cost_what_they_take_of_the_link(fabric, tmp_path, layout):
    """A link is never idle while something waits for it: 10 MB from one rank and ten times 100 kB
    from another into one host end when the link has carried all 11 MB, wherever the short ones
    fall, as the fluid layer says."""
    pause = {"before": 1000, "within": 18_000, "behind": 21_000}[layout]
    lines = [f"c0: calc {pause}"]
    for k in range(10):
        lines += [
            f"s{k}: send 100000b to 2",
            f"s{k} requires c{k}",
            f"c{k + 1}: calc {pause}",
            f"c{k + 1} requires c{k}",
        ]
    text = (
        "num_ranks 3\nrank 0 {\nsend 10000000b to 2\n}\nrank 1 {\n"
        + "\n".join(lines)
        + "\n}\nrank 2 {\nrecv 10000000b from 0\n"
        + "recv 100000b from 1\n" * 10
        + "}\n"
    )
    assert replay(fabric, text).simulated_us == pytest.approx(fluid(fabric, text, tmp_path), rel=0.02)


def test_rendezvous_waits_for_the_receive_and_reads(fabric, tmp_path):
    """1 MB over the limit: the receiver computes 300 us first; nothing moves before, in both
    layers."""
    text = (
        "num_ranks 2\nrank 0 {\nb: send 1000000b to 1\n}\nrank 1 {\na: calc 300000\nc: recv 1000000b from 0\nc "
        "requires a\n}\n"
    )
    eager, late = (replay(fabric, text, eager_limit=n).simulated_us for n in ("2GB", "8kB"))
    assert eager == pytest.approx(300, abs=1) and late > 315
    assert late == pytest.approx(fluid(fabric, text, tmp_path, ",eager-limit=8kB"), rel=0.03)


def test_what_waits_for_a_begin_and_ranks_of_one_host(fabric):
    text = (
        "num_ranks 2\nrank 0 {\na: calc 9000\nb: calc 100 cpu 1\nb irequires a\nc: send 1000b to 1 cpu 1\nc "
        "requires b\n}\nrank 1 {\nrecv 1000b from 0\n}\n"
    )
    found = replay(fabric, text, ranks_per_host=2)
    assert found.rank_ends_us == [9.0, pytest.approx(0.1 + 0.3 + 0.1, abs=1e-6)]


def test_matching_is_by_source_target_and_tag_in_order():
    """Oracle: dictionaries of lists, over random programs of three ranks."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        n = 200
        kind, rank, peer, tag = (
            rng.integers(0, 3, n),
            rng.integers(0, 3, n),
            rng.integers(0, 3, n),
            rng.integers(0, 2, n),
        )
        found = matches(kind.astype(np.uint8), rank, peer, tag)
        queues: dict[tuple, list[list[int]]] = {}
        for i in np.flatnonzero(kind < 2).tolist():
            key = (rank[i], peer[i], tag[i]) if kind[i] == 0 else (peer[i], rank[i], tag[i])
            queues.setdefault(key, [[], []])[kind[i]].append(i)
        wanted = np.full(n, -1)
        for sends, receives in queues.values():
            for a, b in zip(sends, receives, strict=False):
                wanted[a], wanted[b] = b, a
        assert np.array_equal(found, wanted)


def test_a_program_that_waits_for_itself_is_named(fabric):
    text = (
        "num_ranks 2\nrank 0 {\na: recv 8b from 1\nb: send 8b to 1\nb requires a\n}\nrank 1 {\nc: recv 8b from "
        "0\nd: send 8b to 0\nd requires c\n}\n"
    )
    with pytest.raises(InputError, match=r"rank 0, a: the operation waits for itself"):
        replay(fabric, text)
    with pytest.raises(InputError, match="ranks"):
        replay(fabric, "num_ranks 99\nrank 0 {\ncalc 1\n}\n")


def test_sensitivity_names_what_a_program_depends_on(fabric, tmp_path):
    """Computing alone: nothing; 1 MB: bandwidth; a chain of 8 octets: latency."""
    (tmp_path / "big.goal").write_text(PING.format(n=10_000_000).replace("5000", "0"))
    (tmp_path / "still.goal").write_text(
        "num_ranks 2\nrank 0 {\na: calc 900000\nb: send 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n"
    )
    (tmp_path / "small.goal").write_text(PING.format(n=8).replace("5000", "0").replace("700", "0"))
    found = {
        name: softib.simulate(fabric, str(tmp_path / f"{name}.goal"), what_if="sensitivity").to_json()["sensitivity"]
        for name in ("big", "still", "small")
    }
    assert found["big"]["bandwidth"]["half"] == pytest.approx(2, rel=0.02) and found["big"]["bandwidth"][
        "double"
    ] == pytest.approx(0.5, rel=0.02)
    assert (
        found["small"]["latency"]["double"] == pytest.approx(2, rel=0.1)
        and abs(found["small"]["bandwidth"]["half"] - 1) < 0.05
    )
    assert all(abs(ratio - 1) < 0.01 for both in found["still"].values() for ratio in both.values())


def test_congestion_is_of_links_between_switches(fabric):
    """Eight hosts on four leaves, all to the next leaf: with half the rate between switches it
    takes twice as long, to the same leaf nothing changes."""
    far = softib.simulate(fabric, "shift:1MB,k=2", what_if="sensitivity").to_json()["sensitivity"]["congestion"]
    near = softib.simulate(fabric, "incast:1MB,senders=1,target=host-0001,hosts=0-1", what_if="congestion=2")
    assert far["double"] == pytest.approx(2, rel=0.05)
    assert near.what_if.simulated_us == near.simulated_us


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ("latency=0", "use a factor from"),
        ("bandwidth=x", "use a factor from"),
        ("congestion=inf", "use a factor from"),
    ],
)
def test_factors_are_numbers(fabric, change, wrong):
    with pytest.raises(InputError, match=wrong):
        softib.simulate(fabric, "shift:1MB", what_if=change)
    with pytest.raises(InputError, match="is not supported by the packet layer"):
        softib.simulate(fabric, "shift:1MB", layer="packet", what_if="latency=2")


def test_computations_are_no_messages(fabric, tmp_path):
    """Two computations and one message."""
    (tmp_path / "x.goal").write_text(PING.format(n=8))
    found = softib.simulate(fabric, str(tmp_path / "x.goal"))
    document = found.to_json()
    assert document["messages"] == 1 and document["bytes"] == 8 and document["computations"] == 4
    assert "1 message in" in repr(found)


@pytest.mark.parametrize(("size", "targets"), [(8, 1), (256, 1), (4096, 1), (4096, 3)])
def test_an_adapter_sends_single_packets_no_faster_than_its_link_and_its_message_rate(fabric, tmp_path, size, targets):
    """400 messages at once, all from one rank, and all to one: law: octets over the link's rate, or
    messages over the adapter's (profiles), as in the fluid layer."""
    each = 400 // targets
    send, receive = (
        "".join(f"{word} {size}b {way} {{}} tag {i} cpu {i % 50}\n" for i in range(each))
        for word, way in (("send", "to"), ("recv", "from"))
    )
    others = range(1, targets + 1)
    for one, other in ((send, receive), (receive, send)):
        text = f"num_ranks {targets + 1}\nrank 0 {{\n" + "".join(one.replace("{}", str(k)) for k in others) + "}\n"
        text += "".join(f"rank {k} {{\n{other.replace('{}', '0')}}}\n" for k in others)
        assert replay(fabric, text).simulated_us == pytest.approx(fluid(fabric, text, tmp_path), rel=0.05)


def test_messages_of_a_queue_pair_arrive_in_their_order(fabric, tmp_path):
    """IBA 9.7: 8 octets behind 10 MB of the same pair do not come first; to another rank they need
    not wait."""
    text = (
        "num_ranks 3\nrank 0 {\nsend 10000000b to 1\nsend 8b to 1\nsend 8b to 2\n}\nrank 1 {\nrecv 10000000b from "
        "0\na: recv 8b from 0\nb: calc 100000\nb requires a\n}\nrank 2 {\nrecv 8b from 0\n}\n"
    )
    found = replay(fabric, text)
    assert found.simulated_us == pytest.approx(fluid(fabric, text, tmp_path), rel=0.01)
    assert found.rank_ends_us[2] < 2


def test_a_rank_copies_one_message_after_another_to_others_of_its_host(fabric):
    """Two of 1 MB: the processor writes 2 x 100 us, and the second is seen 0.3 us later, as the
    other layers have it."""
    text = (
        "num_ranks 2\nrank 0 {\nsend 1000000b to 1\nsend 1000000b to 1\n}\nrank 1 {\nrecv 1000000b from 0\nrecv "
        "1000000b from 0\n}\n"
    )
    assert replay(fabric, text, ranks_per_host=2).simulated_us == pytest.approx(200.3, abs=1e-6)
