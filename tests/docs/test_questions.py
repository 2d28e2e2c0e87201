"""The worked questions are true: their pictures are drawn from the runs that their commands make, and what the text says of them holds."""

from __future__ import annotations

import re

import pytest

from tests.docs.scripts import ROOT, script

PAGE = (ROOT / "docs" / "questions.md").read_text("utf-8")


def test_every_picture_is_on_the_page_and_every_example_used():
    drawing = script("draw_questions")
    files = {path.name for path in drawing.PICTURES.glob("*.svg")}
    assert (
        files == {f"{name}.svg" for name in drawing.QUESTIONS} == set(re.findall(r"img/questions/([a-z-]+\.svg)", PAGE))
    )
    assert all(f"examples/questions/{path.name}" in PAGE for path in (ROOT / "examples" / "questions").iterdir())


def test_the_schedule_is_recursive_doubling():
    """Every rank exchanges 4096 octets with the rank that differs in bit k, in step k."""
    from softib.workloads.schedule.schedule import Kind
    from softib.workloads.traces.goal import read_goal

    path = ROOT / "examples" / "questions" / "allreduce-16.goal"
    goal = read_goal(path, path.read_bytes())
    sends = goal.kind == Kind.SEND
    pairs = set(zip(goal.rank[sends].tolist(), goal.peer[sends].tolist(), strict=True))
    assert (
        goal.ranks == 16
        and pairs == {(r, r ^ (1 << k)) for r in range(16) for k in range(4)}
        and set(goal.size[sends]) == {4096}
    )


@pytest.mark.slow
def test_the_pictures_show_the_runs_and_the_text_says_so():
    drawing = script("draw_questions")
    made = drawing.answers()
    bars = {name: {label: value for label, value, _ in found} for name, found in made.items()}
    e, d, s, g, n = (bars[name] for name in ("engines", "dead-spine", "storage", "generations", "ethernet"))
    assert (
        min(e, key=e.get) == "minhop, fluid (can deadlock)"
        and max(e["dfsssp, packets"], e["lash, packets"]) < e["updn, packets"]
    )
    assert (
        1.8 < d["across: one spine"] / d["across: both spines"] < 2.2 and 65e3 < d["across: one dies at 100 µs"] < 70e3
    )
    assert len({round(v) for k, v in d.items() if k.startswith("inside")}) == 1
    assert (
        s["beside a checkpoint"] > 4.5 * s["training alone"]
        and s["the checkpoint on a VL of its own"] < 1.5 * s["training alone"]
    )
    assert bars["sharp"]["switches (SHARP)"] < 0.4 * bars["sharp"]["hosts, recursive doubling"]
    assert g["all-to-all of 1MB: NDR"] < 0.3 * g["all-to-all of 1MB: EDR"]
    assert g["all-to-all of 256: NDR, times 30"] > g["all-to-all of 256: EDR, times 30"]
    assert n["reads of 4 MiB: tcp"] < 1.15 < n["all-to-all: roce"] and n["ping-pong: tcp"] > 20
    other = [
        name for name, text in drawing.pictures(made).items() if (drawing.PICTURES / name).read_text("utf-8") != text
    ]
    assert not other, "run python docs/draw_questions.py"


def test_times_below_a_picture_stand_in_it():
    """What a reader who does not see the picture is told."""
    told = re.findall(r"!\[Bars: ([^\]]+)\]\((img/questions/[a-z-]+\.svg)\)", PAGE)
    assert len(told) == 5
    for words, path in told:
        drawn = (ROOT / "docs" / path).read_text("utf-8")
        for time in re.findall(r"[0-9][0-9,.]* (?:µs|ms)", words):
            assert f">{time}<" in drawn, (path, time)
