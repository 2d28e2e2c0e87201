"""``SOFTIB_STRICT``: each bug goes unnoticed without it, and bites or is told with it; right programs run as without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.preload.verbs.applications import A
from tests.scratch import scratch

pytestmark = pytest.mark.stock

BITES = ("reuse", "read_early", "error_fields", "srq_order")
REPORTED = {
    "unsignalled": "the last 16 requests",
    "no_room": "ibv_post_recv: queue full: its 16 receives wait",
    "attributes": "missing: IBV_QP_ACCESS_FLAGS; not allowed: IBV_QP_TIMEOUT",
    "without_reads": "max_dest_rd_atomic is 0",
    "nearly_full": "close to overrun",
    "dereg_posted": "ibv_dereg_mr: 1 requests or receives",
    "destroy_unpolled": "completions that were not polled",
    "extended_field": "ibv_wc_read_byte_len of a completion with status 10",
    "wrong_qkey": "its Q_Key is 0x2222, the QP's is 0x1111",
    "no_grh_room": "no room for the 40 bytes of the GRH",
    "never_ready": "rnr_retry 7 waits for ever",
    "cut_off": "min_rnr_timer 40 does not fit; truncated to 8",
    "cut_twice": "timeout 46 does not fit; truncated to 14",
    "not_polled": "16 of its 16 receives have completed, but were not polled",
    "inline_too_long": "65 bytes inline, QP",
    "overrun": "has overrun",
}
"""What strict mode says, by bug."""


@pytest.fixture(scope="session")
def bugs() -> Path:
    to = scratch("softib-bugs-") / "strict_bugs"
    source = Path(__file__).with_name("strict_bugs.c")
    done = subprocess.run(
        ["gcc", "-O1", "-g", "-rdynamic", "-Wall", "-Wextra", "-Werror", "-o", str(to), str(source), "-libverbs"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return to


LOOP = 'for bug in "$@"; do "$PROGRAM" "$bug" 2> "$INTO/$bug"; echo "$bug" $?; done'


def all_of(apps, program: Path, **env: str) -> dict[str, tuple[int, str]]:
    """Exit code and stderr of every bug, one after the other."""
    into = scratch("softib-said-")
    names = [*BITES, "reuse_inline", *REPORTED]
    env = {**apps.env, "PROGRAM": str(program), "INTO": str(into), **env}
    done = subprocess.run(
        apps.on(A, "sh", "-c", LOOP, "sh", *names), env=env, capture_output=True, text=True, timeout=200
    )
    codes = dict(line.split() for line in done.stdout.splitlines())
    assert list(codes) == names, done.stderr
    return {name: (int(codes[name]), (into / name).read_text()) for name in names}


@pytest.fixture(scope="module")
def plain(apps, bugs):
    return all_of(apps, bugs)


@pytest.fixture(scope="module")
def strict(apps, bugs):
    return all_of(apps, bugs, SOFTIB_STRICT="1")


@pytest.mark.parametrize("bug", BITES)
def test_a_bug_that_bites_with_strict_only(stock, plain, strict, bug):
    assert plain[bug] == (0, "")
    assert strict[bug][0] == 1, strict[bug]


def test_an_inline_buffer_returns_to_the_program_at_once(stock, strict):
    assert strict["reuse_inline"] == (0, "")


@pytest.mark.parametrize("bug", REPORTED)
def test_a_bug_that_is_reported_with_strict_only(stock, plain, strict, bug):
    assert plain[bug] == (0, "")
    code, output = strict[bug]
    assert code == 0 and output.startswith("softib: strict: ") and REPORTED[bug] in output, output
    first = output.split("\n")[1]
    assert "libsoftib-verbs" not in first, output  # where the program was, not where we were
    assert bug == "never_ready" or "strict_bugs(" in output, output  # that one may be noticed by the timer's thread
