"""Machine code and the reader of lines read the same GOAL text: whatever the first takes, the second takes, as the same schedule."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from softib.errors import InputError
from softib.workloads.schedule.schedule import Schedule
from softib.workloads.traces import goal
from softib.workloads.traces.goal import read_goal, write_goal
from softib.workloads.traces.goal_text import read_columns
from tests.workloads.programs import same

TEXT = """// a comment

num_ranks 3 ;
rank 2 {
l2: send 100b to 0 tag 7 cpu 1 nic 0;
a_1 : recv 8b from 1
calc 30 cpu 2 // unnamed
l2 requires zz
zz: calc 123456789012345
l900: send 1b to 1
}
rank 0 {
l2: recv 100b from 2 tag 7
l2 irequires l900;
l900: calc 1
a_1: calc 9
a_1 requires l2
a_1 irequires l900
}
rank 1 {
x: send 8b to 2\tcpu 255
y: recv 1b from 2
}
"""


def by_lines(text: str) -> Schedule:
    return goal._Text(Path("t.goal")).read(text.encode())


def test_columns_are_those_of_the_lines():
    quick, slow = read_columns("t", TEXT.encode(), False), by_lines(TEXT)
    assert quick is not None
    same(quick, slow)
    assert list(quick.labels) == list(slow.labels) and quick.where(5) == slow.where(5)
    assert quick.on_start.sum() == slow.on_start.sum() == 2
    again = read_columns("t", write_goal(slow).encode(), False)
    assert again is not None
    same(again, slow)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_text_is_taken_by_neither_or_by_both_alike(seed):
    """Octets and words are changed, left out and doubled: what machine code takes is what the grammar says."""
    rng, taken = random.Random(seed), 0
    parts = [
        "",
        " ",
        "\n",
        "}",
        "{",
        ";",
        ":",
        "/",
        "//",
        "-1",
        "0",
        "99999999999999999999",
        "tag 1",
        "nic 2",
        "send",
        "b",
        "l2",
        "rank 0 {",
        "\r",
        "\xe9",
    ]
    for _ in range(400):
        at = rng.randrange(len(TEXT))
        text = TEXT[:at] + rng.choice(parts) + TEXT[at + rng.choice((0, 0, 1, 2)) :]
        quick = read_columns("t", text.encode(), False)
        if quick is not None:
            taken += 1
            same(quick, by_lines(text))
    assert taken > 40


def test_a_long_text_that_is_wrong_has_its_line(monkeypatch):
    monkeypatch.setattr(goal, "LONG", 0)
    same(read_goal(Path("t.goal"), TEXT.encode()), by_lines(TEXT))
    with pytest.raises(InputError, match=r"t.goal:21: .* is not an operation"):
        read_goal(Path("t.goal"), TEXT.replace("x: send 8b", "x: sned 8b").encode())
    with pytest.raises(InputError, match="rank 2 has no zz"):
        read_goal(Path("t.goal"), TEXT.replace("zz: calc", "zy: calc").encode())
