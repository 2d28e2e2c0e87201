"""One process with a manager for each of its ports: two subnets that know nothing of each other, and a third port with nothing to manage."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.live.serving import wait_for
from tests.live.umad_sm.lab import fabric_of, own

RAILS = """\
Switch 8 "leaf-a"
[1] "host-1"[1]
[2] "host-2"[1]
[3] "host-1"[3]

Switch 8 "leaf-b"
[1] "host-1"[2]
[2] "host-2"[2]
[3] "host-3"[1]

Hca 3 "host-1"
[1] "leaf-a"[1]
[2] "leaf-b"[1]
[3] "leaf-a"[3]

Hca 2 "host-2"
[1] "leaf-a"[2]
[2] "leaf-b"[2]

Hca 1 "host-3"
[1] "leaf-b"[3]
"""


def _events(softib) -> list[dict]:
    log = softib.folder / "log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []


def _swept(softib, umad: str) -> bool:
    return any(e["event"] == "sweep" and umad in e["port"] for e in _events(softib))


def _sweeps(softib, umad: str) -> int:
    return sum(e["event"] == "sweep" and umad in e["port"] for e in _events(softib))


def _states(softib) -> dict[str, list[str]]:
    """The states of each umad device's manager, oldest first, and ENDED for one that could not go on."""
    states: dict[str, list[str]] = {}
    for e in _events(softib):
        if e["event"] in ("state", "manager ended"):
            states.setdefault(e["port"].partition("(")[2].rstrip(")"), []).append(e.get("now", "ENDED"))
    return states


def _master_of_a(softib) -> str:
    """The device whose manager has subnet a while that of the other gave way; "" while they have not agreed.

    A manager that finds a master before it was one itself ends; one that was master for a moment, since the other's first sweep lost answers,
    hands over and stands by (IBA 14.4.1)."""
    states = _states(softib)
    for master, other in (("umad0", "umad2"), ("umad2", "umad0")):
        gave_way = states.get(other, [""])[-1] == "ENDED" or states.get(other, [])[-2:] == ["MASTER", "STANDBY"]
        if states.get(master, [""])[-1] == "MASTER" and gave_way and _swept(softib, master):
            return master
    return ""


def _nodes(softib, stock, port: int) -> set[str]:
    """What stock saquery says that there is, asked from host-1's ``port``."""
    done = subprocess.run(
        softib.words("run", "--", stock("saquery"), "-P", str(port)),
        env=softib.env,
        cwd=softib.folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(re.findall(r"NodeDescription\.+(\S+)", done.stdout))


def test_two_subnets_of_one_process(softib, stock):
    (softib.folder / "rails.net").write_text(RAILS)
    (softib.folder / "b.conf").write_text("subnet_prefix 0xfe80000000000002\n")
    softib("up", "rails.net", "--sm", "external", "--detach")
    words = softib.words(
        "run",
        "--",
        sys.executable,
        "-m",
        "softib.cli.main",
        "sm",
        "run",
        "umad0",
        "umad1=b.conf",
        "umad2",
        "--sweep",
        "1",
        "--log-file",
        "log",
    )
    process = subprocess.Popen(words, env=softib.env, cwd=softib.folder, stderr=subprocess.PIPE, text=True)
    softib.started.append(process)
    assert wait_for(lambda: _swept(softib, "umad1") and _master_of_a(softib)), _events(softib)
    a = _master_of_a(softib)
    ended = [e for e in _events(softib) if e["event"] == "manager ended"]
    assert all("umad1" not in e["port"] and a not in e["port"] for e in ended), ended
    assert all("this subnet has a master" in e["why"] and "LID 0," not in e["why"] for e in ended), ended

    # A sweep that began before the other manager had gone may have ended as a standby's: the next, a second later, is the master's.
    assert wait_for(lambda: _nodes(softib, stock, int(a[-1]) + 1) == {"leaf-a", "host-1", "host-2"})
    assert wait_for(lambda: _nodes(softib, stock, 2) == {"leaf-b", "host-1", "host-2", "host-3"})
    f = fabric_of(softib)
    host = {f.node_name(int(n)): int(n) for n in f.cas}
    assert f.lid[f.port(host["host-1"], 1)] and f.lid[f.port(host["host-2"], 2)]
    prefixes = {int.from_bytes(f.port_info[f.port(host["host-2"], p), 8:16].tobytes(), "big") for p in (1, 2)}
    assert prefixes == {0xFE80_0000_0000_0000, 0xFE80_0000_0000_0002}
    kept = {p.name for p in (softib.folder / "run" / "softib" / "rails").glob("guid2lid-" + 16 * "[0-9a-f]")}
    guids = [int(f.port_guid[f.port(host["host-1"], p)]) for p in (2, int(a[-1]) + 1)]
    # More than these where the manager that was in vain had been master for a moment.
    assert kept >= {f"guid2lid-{guid:016x}" for guid in guids}

    _fault_of_one_subnet(softib, stock, a)
    pid = next(c["pid"] for c in softib.status()[0]["clients"] if c["sm"])
    os.kill(pid, signal.SIGTERM)
    assert process.wait(120) == (2 if ended else 0), "one of three managers could not go on, or stood by"
    assert ("this subnet has a master" in process.stderr.read()) == bool(ended)


def _fault_of_one_subnet(softib, stock, other: str) -> None:
    """A link of leaf-b falls and rises: umad1's manager sweeps, that of ``other`` does not. It may sweep for a trap of its own subnet, which comes
    when it comes (the third port's manager left, a trap is repeated); such sweeps are few, so one of several faults meets none."""
    for turn in range(10):
        sweeps = _sweeps(softib, other)
        softib("fault", "link-up" if turn % 2 else "link-down", "leaf-b[2]")
        hosts = {"leaf-b", "host-1", "host-3"} | ({"host-2"} if turn % 2 else set())
        assert wait_for(lambda hosts=hosts: _nodes(softib, stock, 2) == hosts)
        assert _nodes(softib, stock, int(other[-1]) + 1) == {"leaf-a", "host-1", "host-2"}, (
            "its manager has had its turn"
        )
        if _sweeps(softib, other) == sweeps:
            return
    raise AssertionError("each fault of a subnet made the other's manager sweep")


def test_a_port_named_twice_is_one_line(softib):
    (softib.folder / "rails.net").write_text(RAILS)
    softib("up", "rails.net", "--sm", "external", "--detach")
    said = own(softib, "sm", "run", "--once", "umad1", "mlx5_0:2", code=2)
    assert "given twice" in said and len(said.strip().splitlines()) == 1
    found = json.loads(own(softib, "sm", "run", "--once", "--json", "umad0", "umad1").split("\nsoftib:")[0])
    assert [p["state"] for p in found["ports"]] == ["MASTER", "MASTER"] and [p["cas"] for p in found["ports"]] == [2, 3]
    address, every = (softib("run", "--", "printenv", f"SOFTIB_ADDRESS{more}").split() for more in ("", "ES"))
    assert len(address) == 1 and len(every) == 3 and every[0] == address[0], (
        "recipes put $SOFTIB_ADDRESS into one argument"
    )
    planned = json.loads(own(softib, "sm", "run", "--dry-run", "--json", "umad0", "umad1").split("\nsoftib:")[0])
    assert [p["changes"] for p in planned["ports"]] == [[], []]


TWO = """\
Switch 8 "leaf-a"
[1] "host-1"[1]
[2] "host-2"[1]
[3] "host-3"[1]

Switch 8 "leaf-b"
[1] "host-1"[2]
[2] "host-2"[2]
[3] "host-4"[1]

Hca 2 "host-1"
[1] "leaf-a"[1]
[2] "leaf-b"[1]

Hca 2 "host-2"
[1] "leaf-a"[2]
[2] "leaf-b"[2]

Hca 1 "host-3"
[1] "leaf-a"[3]

Hca 1 "host-4"
[1] "leaf-b"[3]
"""


def _printed(softib, *words: str, code: int | None = 0) -> dict:
    done = subprocess.run(
        softib.words(*words), env=softib.env, cwd=softib.folder, capture_output=True, text=True, timeout=120
    )
    assert code in (None, done.returncode), (words, done.stdout[-800:], done.stderr[-800:])
    return json.loads(done.stdout) if "--json" in words else {"stdout": done.stdout, "stderr": done.stderr}


@pytest.mark.slow
def test_every_verb_judges_each_subnet_or_names_it(softib, stock):
    """Two managers give the same LIDs to the ports of their own subnets, which is right (IBA 4.1.3). Stock ibtracert, asked from each port, knows
    the ways within them."""
    (softib.folder / "two.topo").write_text(TWO)
    softib("up", "two.topo", "--sm", "external", "--detach")
    words = softib.words(
        "run", "--", sys.executable, "-m", "softib.cli.main", "sm", "run", "umad0", "umad1", "--log-file", "log"
    )
    process = subprocess.Popen(words, env=softib.env, cwd=softib.folder, stderr=subprocess.DEVNULL)
    softib.started.append(process)
    assert wait_for(lambda: _swept(softib, "umad0") and _swept(softib, "umad1"))
    f = fabric_of(softib)
    lids = {f.port_name(int(p)): int(f.lid[p]) for p in f.end_ports()}
    assert len(set(lids.values())) < len(lids), "else there is nothing to confuse"

    found = _printed(softib, "check", "two", "--json", code=1)["findings"]
    assert [one["code"] for one in found] == ["subnets-apart", "sm-no-standby", "sm-no-standby"]
    routed = _printed(softib, "route", "two", "--json")
    assert routed["unreachable"] == routed["switch_unreachable"] == routed["ports_without_lid"] == 0
    assert [(o["host_ports"], o["unreachable"]) for o in routed["other_subnets"]] == [(3, 0)]
    said = _printed(softib, "simulate", "two", "shift:64KB")["stdout"]
    assert "3 messages completed" in said and "2 subnets" in said and "host-1[2]" in said
    said = _printed(softib, "exporter", "two", "--once")
    assert "leaf-b" not in said["stdout"] and "not that of host-1[2]" in said["stderr"]

    for a, b, port, switch in (
        ("host-1", "host-3", 1, "leaf-a"),
        ("host-1", "host-4", 2, "leaf-b"),
        ("host-2", "host-1", 1, "leaf-a"),
    ):
        path = _printed(softib, "path", "two", a, b, "--json")
        assert (path["a"], path["b"]) == (f"{a}[{port}]", f"{b}[{1 if b != 'host-1' else port}]")
        assert (path["slid"], path["dlid"]) == (lids[path["a"]], lids[path["b"]])
        traced = subprocess.run(
            softib.words("run", "--", stock("ibtracert"), "-P", str(port), str(path["slid"]), str(path["dlid"])),
            env=softib.env,
            cwd=softib.folder,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        assert f'"{switch}"' in traced and f'"{b}"' in traced
        assert [hop["node"] for hop in path["hops"]] == [a, switch] and "stated by" in path["sl_source"]
    assert "two subnets" in _printed(softib, "path", "two", "host-3", "host-4", code=1)["stdout"]

    softib("fault", "link-down", "leaf-b[3]")  # its manager takes host-4 out; that of leaf-a has nothing to do with it
    softib("convert", "two", "at-rest.ibnetdiscover")
    softib("convert", "two", "at-rest.lfts")
    found = _printed(softib, "check", "at-rest.ibnetdiscover", "--lfts", "at-rest.lfts", "--json", code=None)[
        "findings"
    ]
    assert not [one for one in found if one["code"] in ("duplicate-lid", "unreachable-pairs")]
