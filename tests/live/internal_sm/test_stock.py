"""``softib up --sm internal`` as stock programs see it: osmtest's flows, an OpenSM that competes, partitions read again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.live.conftest import own_library  # noqa: F401  (a fixture)
from tests.live.lab import Softib
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock
FABRIC = "name: net\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
IMPATIENT = "sminfo_polling_timeout 300\npolling_retry_number 2\n"
MASTER = re.compile(r"sm lid (\d+) sm guid 0x(\w+), activity count \d+ priority (\d+) state 3 SMINFO_MASTER")


@pytest.fixture
def softib(tmp_path, own_library):  # noqa: F811
    if own_library is None:
        pytest.skip("libsoftib-umad.so is not built: no C compiler")
    (tmp_path / "net.yaml").write_text(FABRIC)
    (tmp_path / "conf").write_text(IMPATIENT)
    s = Softib(tmp_path)
    yield s
    for one in s.status():
        os.kill(one["pid"], signal.SIGKILL)
    for p in s.started:
        p.kill()


def on(s: Softib, *words: str, node: str = "host-0002", seconds: float = 240) -> tuple[int, str]:
    """A program on a host: (its exit code, what it said)."""
    done = subprocess.run(
        s.words("run", "--node", node, "--", *words),
        env=s.env,
        cwd=s.folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        errors="replace",
    )
    return done.returncode, done.stdout + done.stderr


def flows(s: Softib, stock, names: str) -> None:
    for flow in names:
        code, said = on(s, stock("osmtest"), "-f", flow, "-w", "2", "-i", "inventory", "-l", f"log-{flow}")
        assert code == 0 and "PASS" in said, (
            flow,
            said[-600:],
            Path(s.folder, f"log-{flow}").read_text(errors="replace")[-1500:],
        )


def test_osmtest_inventory_and_multicast(softib, stock):
    softib("up", "net.yaml", "--detach")
    flows(softib, stock, "cm")


@pytest.mark.slow
def test_osmtest_all_flows_but_the_long_ones(softib, stock):
    softib("up", "net.yaml", "--detach")
    flows(softib, stock, "cvsetaq")


def test_a_higher_opensm_takes_over_and_its_death_brings_us_back(softib, stock):
    softib("up", "net.yaml", "--detach", "--sm-config", "conf", "--priority", "3")
    master = lambda timeout_ms="200": (MASTER.search(on(softib, stock("sminfo"), "-t", timeout_ms)[1]) or [None])[0]
    ours = MASTER.search(master("60000"))
    assert ours[3] == "3"
    env = {**softib.env, "OSM_CACHE_DIR": str(softib.folder), "OSM_TMP_DIR": str(softib.folder)}
    words = softib.words(
        "run", "--node", "host-0003", "--", stock("opensm"), "-F", "conf", "-p", "9", "-f", "log", "-d2"
    )
    other = subprocess.Popen(
        words, env=env, cwd=softib.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        assert wait_for(lambda: (m := master()) and MASTER.search(m)[3] == "9"), (
            "a higher priority comes: handover (IBA 14.4.1)"
        )
        assert wait_for(lambda: softib.status()[0]["sm"]["state"] == "STANDBY")
        log = Path(softib.folder, "log").read_text(errors="replace")
        assert "ERR 5410" not in log, "its trap 144 is answered with a TrapRepress"
        _, both = on(softib, stock("saquery"), "SMIR")
        assert both.count("SMInfoRecord dump") == 2
        clients = softib.status()[0]["clients"]
        os.kill(next(c["pid"] for c in clients if c["sm"]), signal.SIGKILL)
        assert wait_for(lambda: (m := master()) and MASTER.search(m)[2] == ours[2]), "the standby polls, and takes over"
        assert wait_for(lambda: softib.status()[0]["sm"]["state"] == "MASTER")
    finally:
        other.kill()
        other.wait()


def test_partitions_are_read_again(softib, stock):
    conf = Path(softib.folder, "partitions.conf")
    conf.write_text("Default=0x7fff, ipoib : ALL, SELF=full ;\n")
    softib("up", "net.yaml", "--detach", "--Pconfig", "partitions.conf")
    nodes = lambda *key: on(softib, stock("saquery"), *key, "NR")[1].split("NodeRecord dump:")[1:]
    records = [dict(re.findall(r"^\t\t(\w+)\.+(\S+)$", r, re.M)) for r in nodes("--smkey", "1")]
    lid = {r["NodeDescription"]: r["lid"] for r in records}
    assert len(lid) == 8 + 6, "who knows the SM_Key sees all (IBA 15.4.1.2)"
    assert len(nodes()) < len(lid), "others see what they share a partition with"
    path = lambda: on(softib, stock("saquery"), "PR", "--slid", lid["host-0002"], "--dlid", lid["host-0003"])[1]
    assert "PathRecord dump" not in path(), "two limited members"
    _, held = on(softib, stock("smpquery"), "pkeys", lid["host-0003"])
    assert re.findall(r"0x[0-9a-f]{4}", held)[0] == "0x7fff"
    conf.write_text("Default=0x7fff, ipoib : ALL, SELF=full ;\nstore=0x11, ipoib : ALL_CAS=full ;\n")
    softib("sm", "reload")
    assert re.search(r"pkey\.+0x8011", path()), path()
    _, held = on(softib, stock("smpquery"), "pkeys", lid["host-0003"])
    assert re.findall(r"0x[0-9a-f]{4}", held)[:2] == ["0x7fff", "0x8011"]
    _, groups = on(softib, stock("saquery"), "-g")
    assert "ff12:401b:8011::ffff:ffff" in groups
    # A file that cannot be used changes nothing, and the daemon says why.
    conf.write_text("store=0x11 : ALL")
    assert "the partition has no end" in softib("sm", "reload", code=2)
    os.kill(softib.status()[0]["pid"], signal.SIGHUP)
    log = Path(softib.status()[0]["log"])
    assert wait_for(lambda: "the partition has no end" in log.read_text())
    assert re.search(r"pkey\.+0x8011", path())
    # Without the partition its group goes, and the path with it.
    conf.write_text("Default=0x7fff, ipoib : ALL, SELF=full ;\n")
    os.kill(softib.status()[0]["pid"], signal.SIGHUP)
    assert wait_for(lambda: "8011" not in path() + on(softib, stock("saquery"), "-g")[1])
    softib("down")


def test_lids_stay_from_one_run_to_the_next(softib, stock):
    softib("up", "net.yaml", "--detach")
    kept = Path(softib.folder, "run", "softib", "net", "guid2lid")
    softib("down")
    lines = kept.read_text().splitlines()
    assert len(lines) == 8 + 6
    kept.write_text("\n".join([lines[0].split()[0] + " 0x0200 0x0200", *lines[1:]]))
    for more, there in (((), True), (("--reassign-lids",), False)):
        softib("up", "net.yaml", "--detach", *more)
        _, names = on(softib, stock("saquery"), "NR")
        assert bool(re.search(r"lid\.+512\n", names)) is there
        softib("down")


def test_a_link_that_fails_is_swept_at_once(softib, stock):
    softib("up", "net.yaml", "--detach", "--sweep", "0")
    sweeps = lambda: softib.status()[0]["sm"]["sweeps"]
    before = sweeps()
    softib("fault", "link-down", "host-0004[1]")
    assert wait_for(lambda: sweeps() > before), "trap 128 calls, without a periodic sweep"
    _, names = on(softib, stock("saquery"), "NR")
    assert "host-0004" not in names and "host-0003" in names
    softib("fault", "link-up", "host-0004[1]")
    assert wait_for(lambda: "host-0004" in on(softib, stock("saquery"), "NR")[1])


@pytest.mark.slow
def test_partitions_decide_what_gets_through(softib, stock):
    """ibping uses the first key of the table: a full member reaches a limited one, two limited ones are strangers."""
    Path(softib.folder, "partitions.conf").write_text("Default=0x7fff, ipoib : ALL, SELF=full ;\n")
    softib("up", "net.yaml", "--detach", "--partitions", "partitions.conf")
    words = softib.words("run", "--node", "host-0004", "--", stock("ibping"), "-S")
    server = subprocess.Popen(
        words, env=softib.env, cwd=softib.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _, said = on(softib, stock("ibaddr"), node="host-0004")
        lid = str(int(re.search(r"LID start (0x[0-9a-f]+)", said)[1], 16))
        reaches = lambda node: " 0% packet loss" in on(softib, stock("ibping"), "-c", "1", lid, node=node)[1]
        assert wait_for(lambda: reaches("host-0001"))
        assert not reaches("host-0002")
        Path(softib.folder, "partitions.conf").write_text("Default=0x7fff, ipoib : ALL=full ;\n")
        softib("sm", "reload")
        assert reaches("host-0002")
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_a_manager_that_was_cut_off_comes_back_to_a_subnet_with_another_master(softib, stock):
    """Its standby took over and told the switches other tables; both are one subnet again when the cable is back: the higher
    priority is master (handover), with its own tables in every switch, and the other stands by."""
    softib("up", "net.yaml", "--detach", "--sm-config", "conf", "--priority", "3", "--sweep", "2")
    env = {**softib.env, "OSM_CACHE_DIR": str(softib.folder), "OSM_TMP_DIR": str(softib.folder)}
    words = softib.words(
        "run", "--node", "host-0003", "--", stock("opensm"), "-F", "conf", "-p", "0", "-f", "log", "-d2"
    )
    other = subprocess.Popen(
        words, env=env, cwd=softib.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    log = Path(softib.folder, "log")
    said = lambda: re.findall(r"Entering (\w+) state", log.read_text(errors="replace")) if log.exists() else []
    state = lambda: softib.status()[0]["sm"]["state"]
    try:
        assert wait_for(lambda: said()[-1:] == ["STANDBY"])
        own = softib.status()[0]["sm"]["node"]
        softib("fault", "link-down", own)
        assert wait_for(lambda: said()[-1:] == ["MASTER"] and state() == "DISCOVERING")
        softib("fault", "link-up", own)
        assert wait_for(lambda: said()[-1:] == ["STANDBY"] and state() == "MASTER")
        assert wait_for(
            lambda: (
                set(softib.status()[0]["port_states"]) >= {"active"}
                and not softib.status()[0]["port_states"].get("init")
            ),
            60,
        )
        ours = MASTER.search(on(softib, stock("sminfo"))[1])
        assert ours[3] == "3"
        answers = [on(softib, stock("sminfo"), node=f"host-000{n}")[1] for n in range(1, 9)]
        assert all(MASTER.search(a)[2] == ours[2] for a in answers), "every host reaches it by its LID"
    finally:
        other.kill()
        other.wait()
