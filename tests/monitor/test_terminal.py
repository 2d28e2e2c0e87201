"""``softib top`` on a real terminal: its keys, other sizes, no colour, a fabric that goes down and comes back. Skips without pyte."""

from __future__ import annotations

import pytest

pytest.importorskip("rich", reason="rich is not installed")
pytest.importorskip("pyte", reason="pyte is not installed (the extra dev)")

from tests.monitor.terminal import COLOUR, Terminal

pytestmark = pytest.mark.slow


def test_every_view_is_seen_and_q_leaves(softib):
    softib.start("one.yaml", "--name", "one")
    jobs = softib.folder / "jobs.yaml"
    jobs.write_text("train: [host-0001, host-0003]\nlost: [nobody]\n")
    softib("fault", "ber", "leaf-1[3]", "1e-3")
    with Terminal(softib.words("top", "one", "--every", "0.3", "--jobs", str(jobs)), softib.env, 24, 120) as t:
        t.until("32 of 32 ports read", "subnet manager: 0x", "MASTER", "busiest ports", "sent Gb/s", "q quit")
        t.key("w")
        t.until("most waiting ports")
        t.key("e")
        assert "symbol+" in t.until("erring ports", "leaf-1[3]") or "rcv+" in t.text
        t.key("j")
        assert "0 of 1" in t.until("train", "lost", "hosts")
        t.key("q")
        assert t.child.wait(20) == 0
        t.read(0.5)
        assert b"\x1b[?1049l" in t.raw and b"\x1b[?25h" in t.raw  # the screen of before, and its cursor


def test_a_terminal_that_becomes_narrow_and_low(softib):
    softib.start("one.yaml", "--name", "one")
    with Terminal(softib.words("top", "one", "--every", "3600"), softib.env | {"NO_COLOR": "1"}, 30, 120) as t:
        t.until("one more round")
        # Not after the hour of a round: at once.
        t.resize(10, 50)
        t.until("busiest ports", "q quit")
        lines = t.text.splitlines()
        assert len(lines) <= 10 and all(len(line) <= 50 for line in lines)
        t.resize(40, 160)
        t.until("devices silent")
        assert not COLOUR.search(t.raw)
        t.key("\x03")
        assert t.child.wait(20) in (0, 130)


def test_a_fabric_that_goes_down_is_waited_for(softib):
    softib.start("one.yaml", "--name", "one")
    with Terminal(softib.words("top", "one", "--every", "0.3"), softib.env, 24, 120) as t:
        t.until("32 of 32 ports read", "sent Gb/s")
        softib("down", "one")
        t.until("s old", "sent Gb/s")
        softib.start("one.yaml", "--name", "one")
        t.until("32 of 32 ports read", "one more round")
        t.key("q")
        assert t.child.wait(20) == 0
        assert t.child.stderr.read() == b""
