"""Partitions that clients ask for are in the P_Key tables of a running fabric, as stock smpquery reads them, and a packet across is refused."""

from __future__ import annotations

import re
import socket
import subprocess
import time

import pytest

from tests.preload.verbs.applications import FABRIC, Applications, stop, wait_for_listener
from tests.tenants.serving import Served, smpquery, table

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
HOSTS = [f"host-000{i}" for i in range(1, 9)]
M, A, B, X, Y = HOSTS[0], HOSTS[2], HOSTS[4], HOSTS[5], HOSTS[6]
"""The manager's host; two members of one partition on different leaves; two of another."""


@pytest.fixture(scope="module")
def fabric():
    made = Applications(FABRIC)
    try:
        yield made
    finally:
        made.close()


def enforcement(fabric) -> list[str]:
    """PartEnforceInb and PartEnforceOutb of the two hosts' ports of the manager's leaf, as stock smpquery reads them."""
    output = [smpquery(fabric, M, "-D", "portinfo", "0,1", str(port)) for port in (1, 2)]
    return re.findall(r"PartEnforce(?:Inb|Outb):\.*(\d)", "".join(output))


@pytest.fixture(scope="module")
def served(fabric):
    folder = fabric.folder / "tenants"
    words = fabric.arguments("serve", "f", "--tenants", str(folder), "--port", "0", "--every", "1")
    before = enforcement(fabric)
    one = Served(words, fabric.env, folder)
    one.enforcement_before = before
    try:
        yield one
    finally:
        one.stop()


def test_a_failed_start_leaves_no_folder_with_a_password(fabric):
    folder = fabric.folder / "not-started"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = fabric.arguments("serve", "f", "--tenants", str(folder), "--port", port)
        done = subprocess.run(words, env=fabric.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and f"127.0.0.1:{port}" in done.stderr and not folder.exists()


@pytest.fixture(scope="module")
def guids(served):
    ports = served.ask("GET", "/ufmRest/resources/ports?sys_type=Computer")[1]
    return {p["system_name"]: p["guid"] for p in ports}


def writes(fabric, server: str, client: str, keys: tuple[int, int]) -> tuple[int, str]:
    """What ib_write_bw of ``client`` ends with, sent with the P_Keys at these indices."""
    port = next(fabric.ports)
    common = ["-n", "50", "-s", "65536", "-p", str(port), "-F"]
    one = fabric.begin(server, "ib_write_bw", *common, f"--pkey_index={keys[0]}")
    try:
        deadline = time.monotonic() + 20
        while True:
            two = fabric.begin(client, "ib_write_bw", *common, f"--pkey_index={keys[1]}", "127.0.0.1")
            output = two.communicate(timeout=60)[0]
            if "Couldn't connect" not in output or time.monotonic() > deadline:
                return two.returncode, output
            time.sleep(0.2)
    finally:
        stop(one)


@pytest.mark.slow
def test_switches_check_p_keys_before_the_first_partition(fabric, served):
    """softib's manager without a partitions.conf leaves it off, as the audit says; the service gives it one."""
    assert served.enforcement_before == ["0"] * 4 and enforcement(fabric) == ["1"] * 4
    assert served.ask("GET", "/tenants/v1/findings") == (200, [])
    audit = subprocess.run(fabric.arguments("audit", "f", "--json"), env=fabric.env, capture_output=True, text=True)
    assert "partition-default-full" in audit.stdout and "enforcement-off" not in audit.stdout


@pytest.mark.slow
def test_members_meet_and_others_are_refused(fabric, served, guids):
    for pkey, members in (("0x0005", (A, B)), ("0x0006", (X, Y))):
        body = {
            "pkey": pkey,
            "index0": False,
            "ip_over_ib": True,
            "membership": "full",
            "guids": [guids[m] for m in members],
        }
        assert served.ask("POST", "/ufmRest/resources/pkeys", body) == (200, {})
        assert served.programmed()["state"] == "programmed"
    assert (table(fabric, A), table(fabric, X)) == (["0xffff", "0x8005"], ["0xffff", "0x8006"])
    listed = served.ask("GET", "/ufmRest/resources/pkeys/?guids_data=true")[1]
    assert [g["programmed"] for g in listed["0x5"]["guids"]] == [True, True]
    code, output = writes(fabric, A, B, (1, 1))
    assert code == 0 and "65536" in output, output
    code, output = writes(fabric, A, X, (1, 1))
    assert code != 0, output
    # The switch port towards A refuses what X sent, and says so by trap 259: it names X, and A, and X's P_Key.
    is_named = lambda findings: [f for f in findings if f["kind"] == "intruder" and f["where"] == guids[X]]
    found = is_named(served.until("/tenants/v1/findings", is_named))
    assert f"{X}[1] sent to {A}[1] with P_Key 0x8006" in found[0]["text"] and "trap 259" in found[0]["text"]
    assert re.search(r"; port \d+ of \S+ refused it", found[0]["text"]), found


@pytest.mark.slow
def test_traffic_of_others_goes_on_while_partitions_change(fabric, served, guids):
    port, others = str(next(fabric.ports)), [guids[h] for h in (X, Y)]
    common = ["-D", "6", "-p", port, "-F", "--pkey_index=1"]
    one = fabric.begin(A, "ib_write_bw", *common)
    try:
        wait_for_listener(int(port), one)
        two = fabric.begin(B, "ib_write_bw", *common, "127.0.0.1")
        changes = 0
        while two.poll() is None:
            body = {"pkey": f"{0x100 + changes % 8:#x}", "guids": others}
            assert served.ask("POST", "/ufmRest/resources/pkeys", body)[0] == 200
            assert served.ask("DELETE", f"/ufmRest/resources/pkeys/{body['pkey']}")[0] == 200
            assert served.programmed()["state"] == "programmed"
            changes += 1
        assert two.returncode == 0 and changes > 3, (two.communicate()[0], changes)
    finally:
        stop(one)


@pytest.mark.slow
def test_a_member_that_left_is_refused(fabric, served, guids):
    assert served.ask("DELETE", f"/ufmRest/resources/pkeys/0x5/guids/{guids[B]}") == (200, {})
    assert served.programmed()["state"] == "programmed"
    assert table(fabric, B) == ["0xffff"]


@pytest.mark.slow
def test_isolation_is_what_packets_do(fabric, served, guids):
    """As full members of the default partition two tenants meet by index 0 of their tables; as limited ones they do not."""
    proof = lambda: served.ask("POST", "/tenants/v1/isolation", {"guids": [guids[A], guids[X]]})[1]
    assert served.ask("POST", "/ufmRest/resources/pkeys", {"pkey": "0x6", "guids": [guids[X]]})[0] == 200
    assert served.programmed()["state"] == "programmed"
    found = proof()
    assert found["isolated"] is False and {(m["a"], m["b"]) for m in found["meets"]} >= {
        tuple(sorted((guids[A], guids[X])))
    }
    code, output = writes(fabric, A, X, (0, 0))
    assert code == 0 and "65536" in output, output
    assert served.ask("PUT", "/tenants/v1/default_membership", {"membership": "limited"})[0] == 200
    assert served.programmed()["state"] == "programmed"
    found = proof()
    assert (found["isolated"], found["pairs"], found["silent"]) == (True, 0, [])
    assert {m["a_port"] for m in found["exceptions"]} | {m["b_port"] for m in found["exceptions"]} == {
        f"{h}[1]" for h in (M, A, X)
    }
    code, output = writes(fabric, A, X, (0, 0))
    assert code != 0, output
    code, output = writes(fabric, M, A, (0, 0))
    assert code == 0, "the exception: the manager's host is a full member"
