"""Programs in the static layer: laws of links and processors, whatever begins when."""

from __future__ import annotations

import random

import pytest

import softib
from softib.sim.agreement import ALL

EDR_US_PER_MB = 80.0


@pytest.fixture(scope="module")
def fabric():
    return softib.generate("fat-tree", radix=4, levels=2, generation="EDR")


def run(fabric, tmp_path, text: str, layer: str = "static"):
    (tmp_path / "x.goal").write_text(text)
    return softib.simulate(fabric, str(tmp_path / "x.goal"), layer=layer)


def chain(sends: int, size: int, between: int) -> str:
    """Rank 0 sends, computes ``between`` ns, sends, …: no send waits for the one before."""
    out = "num_ranks 2\nrank 0 {\nc0: calc 1\n"
    for i in range(sends):
        out += (
            f"s{i}: send {size}b to 1 tag {i}\ns{i} requires c{i}\nc{i + 1}: calc {between}\nc{i + 1} requires c{i}\n"
        )
    return out + "}\nrank 1 {\n" + "".join(f"recv {size}b from 0 tag {i}\n" for i in range(sends)) + "}\n"


def test_messages_that_begin_one_after_another_do_not_pass_their_link_at_once(fabric, tmp_path):
    """Law: 100 MB need 8 ms of a link of 100 Gb/s. Each send is a step of its own here."""
    found = run(fabric, tmp_path, chain(100, 1_000_000, 100))
    assert found.to_json()["simulated_us"] == pytest.approx(100 * EDR_US_PER_MB, rel=0.02)
    assert run(fabric, tmp_path, chain(100, 1_000_000, 200_000)).to_json()["simulated_us"] == pytest.approx(
        20_000, rel=0.01
    )


def test_a_processor_computes_one_thing_at_a_time(fabric, tmp_path):
    """Two of 3 us and one of 2 us on one processor, one of 5 us beside them: 8 us, as in every layer; and the shorter of two that wait for different things first."""
    text = "num_ranks 2\nrank 0 {\na: calc 3000\nb: calc 3000\nd: calc 2000\nc: calc 5000 cpu 1\n}\nrank 1 {\n}\n"
    for layer in ("static", "fluid", "packet"):
        found = run(fabric, tmp_path, text, layer)
        assert found.to_json()["simulated_us"] == 8.0
        assert found.agreement == ALL
    late = "num_ranks 1\nrank 0 {\na: calc 9000 cpu 1\nb: calc 1000\nb requires a\nc: calc 4000\nd: calc 500\nd requires c\n}\n"
    assert run(fabric, tmp_path, late).to_json()["simulated_us"] == 10.0


def random_program(seed: int) -> str:
    """Up to eight ranks, 60 operations: computations on several processors, messages of one octet to 2 MB; everything requires earlier operations of its rank alone."""
    draw = random.Random(seed)
    ranks = draw.randint(1, 8)
    lines: list[list[str]] = [[] for _ in range(ranks)]

    def add(rank: int, what: str) -> None:
        n = sum(": " in line for line in lines[rank])
        lines[rank].append(f"l{n}: {what}")
        lines[rank] += [f"l{n} requires l{k}" for k in draw.sample(range(n), min(n, draw.randint(0, 2)))]

    for _ in range(60):
        a, b = draw.randrange(ranks), draw.randrange(ranks)
        if a == b:
            add(a, f"calc {draw.randint(0, 100_000)} cpu {draw.randrange(3)}")
        else:
            size, tag = draw.choice([1, 64, 4096, 4097, draw.randint(1, 2_000_000)]), draw.randrange(3)
            add(a, f"send {size}b to {b} tag {tag}")
            add(b, f"recv {size}b from {a} tag {tag}")
    return f"num_ranks {ranks}\n" + "".join(f"rank {r} {{\n" + "\n".join(x) + "\n}\n" for r, x in enumerate(lines))


def least_us(text: str) -> float:
    """What the busiest processor computes, and the busiest host's link (100 Gb/s) sends or receives."""
    busy: dict[tuple[str, ...], float] = {}
    rank = ""
    for line in text.splitlines():
        words = line.split()
        if words[0] == "rank":
            rank = words[1]
        elif "calc" in words:
            busy[rank, words[-1]] = busy.get((rank, words[-1]), 0) + int(words[2]) / 1000
        elif "send" in words or "recv" in words:
            key = (rank, words[1])
            busy[key] = busy.get(key, 0) + int(words[2][:-1]) * EDR_US_PER_MB / 1e6
    return max(busy.values())


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_keep_the_laws_in_all_layers(fabric, tmp_path, seed):
    """Same messages and octets; nobody is faster than the busiest link or processor; fluid and packet agree within 10 %."""
    text = random_program(seed)
    packet, fluid, static = (run(fabric, tmp_path, text, layer).to_json() for layer in ("packet", "fluid", "static"))
    loggops = softib.replay(fabric, str(tmp_path / "x.goal")).to_json()
    every = (packet, fluid, static, loggops)
    assert len({(x["messages"], x["bytes"]) for x in every}) == 1
    assert min(x["simulated_us"] for x in every) >= least_us(text)
    assert fluid["simulated_us"] == pytest.approx(packet["simulated_us"], rel=0.1)
