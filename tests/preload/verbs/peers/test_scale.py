"""Many objects and many programs at once, and a wall clock that jumps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.live.serving import wait_for
from tests.preload.verbs.applications import A, Applications, B, empty
from tests.preload.verbs.c_programs import program

pytestmark = pytest.mark.slow
QPS, PROGRAMS = 10_000, 300


def descriptors(apps: Applications) -> int:
    return len(os.listdir(f"/proc/{apps.status()['pid']}/fd"))


def test_ten_thousand_queue_pairs_of_one_program(apps):
    one = subprocess.Popen(
        apps.on(A, program("many"), str(QPS)), env=apps.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert one.stdout.readline() == "made\n"
    held = apps.status()["verbs"]
    assert (held["numbers"], held["keys"]) == (QPS, QPS)
    one.communicate("\n\n", 240)
    assert one.returncode == 0 and wait_for(lambda: empty(apps))


def test_three_hundred_programs_that_are_killed(apps):
    """Together they have 1,500 QPs; the daemon has their descriptors and memory again when they are gone."""
    before = descriptors(apps)
    script = f"for i in $(seq {PROGRAMS}); do {program('many')} 5 stay & done; wait"
    group = apps.begin(A, "sh", "-c", script)
    try:
        made = [group.stdout.readline() for _ in range(PROGRAMS)]
        assert set(made) == {"made\n"}, set(made)
        held = apps.status()["verbs"]
        assert (held["programs"], held["numbers"]) == (PROGRAMS, 5 * PROGRAMS)
        apps.pair(
            ("ibv_rc_pingpong", "-p", (port := str(next(apps.ports)))),
            ("ibv_rc_pingpong", "-p", port, "127.0.0.1"),
            tcp=int(port),
        )
    finally:
        os.killpg(group.pid, 9)
        group.wait()
    assert wait_for(lambda: empty(apps), 120), apps.status()["verbs"]
    assert wait_for(lambda: descriptors(apps) <= before + 4)


LIBRARY = next((str(p) for p in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")


@pytest.mark.skipif(not LIBRARY, reason="libfaketime is not installed")
@pytest.mark.parametrize("jump", ["-3650d", "+3650d"])
def test_the_wall_clock_jumps(tmp_path, stock, jump):
    """Under the daemon, by ten years, as when an NTP client first hears of the time: timers and requests go on."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    false = {
        "LD_PRELOAD": LIBRARY,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    before = {name: os.environ.get(name) for name in false}
    os.environ.update(false)
    try:
        apps = Applications()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    for name in false:
        del apps.env[name]
    try:
        assert LIBRARY in Path(f"/proc/{apps.status()['pid']}/maps").read_text()
        for offset in (jump, "+0"):
            clock.write_text(f"{offset}\n")
            done = subprocess.run(
                apps.on(B, stock("saquery"), "-s"), env=apps.env, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0 and "IsSM" in done.stdout, done.stderr
            sweeps = apps.status()["sm"]["sweeps"]
            apps("fault", "link-down", "leaf-1[3]")
            assert wait_for(lambda seen=sweeps: apps.status()["sm"]["sweeps"] > seen), "trap 128 sets off a sweep"
            apps("fault", "link-up", "leaf-1[3]")
            port = str(next(apps.ports))
            apps.pair(("ib_write_lat", "-R", "-p", port), ("ib_write_lat", "-R", "-p", port, apps.address(A)), tcp=0)
        assert apps.status()["bugs"] == 0
    finally:
        apps.close()
