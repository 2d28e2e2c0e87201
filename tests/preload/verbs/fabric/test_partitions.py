"""Two partitions on one fabric: real QPs of one reach none of the other; ports count what they refuse, and say so."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from softib.iba.constants import CapMask
from softib.iba.notice import TrapBadSwitchPKey
from softib.iba.smp import PortInfo
from tests.live.serving import wait_for
from tests.preload.verbs.applications import FABRIC, A, Applications, B, C, stop
from tests.preload.verbs.fabric_library import REASONS
from tests.preload.verbs.fabric_up import cas_of, line_of, route_counts, tree
from tests.preload.verbs.peers.hostile_programs import hostile

RULES = """Default=0x7fff, ipoib: ALL=limited, SELF=full;
Red=0x0001: 0x{red}=full;
Blue=0x0002: 0x{blue}=full;
Common=0x0003: 0x{red}=full, 0x{blue}=full;
"""
TRAP_AT = 68
"""Of the trap's number in a MAD: 64 octets of head, then Notice (IBA 13.4.8.2)."""


def guid(fabric: Applications, node: str) -> str:
    return (
        subprocess.run(fabric.on(node, "ibstat", "-p"), env=fabric.env, capture_output=True, text=True, check=True)
        .stdout.split()[0]
        .removeprefix("0x")
    )


@pytest.fixture(scope="module")
def parted():
    """A fabric with the partitions above; its MADs are in ``mads.pcap``."""
    made = Applications(FABRIC, "--pcap", "mads.pcap")
    try:
        rules = made.folder / "partitions.conf"
        rules.write_text(RULES.format(red=guid(made, C), blue=guid(made, B)))
        made("down")
        made("up", "f.yaml", "--detach", "--pcap", "mads.pcap", "--Pconfig", "partitions.conf")
        yield made
    finally:
        made.close()


def strangers(fabric: Applications, count: int, seed: int, limit_s: float = 240) -> dict[str, int]:
    """What both sides count, of ``count`` attempts."""
    file, program = fabric.folder / f"strangers-{seed}", str(hostile("strangers"))
    one = fabric.begin(C, program, "victim", str(file))
    two = fabric.begin(B, program, "attacker", str(file), str(count), str(seed))
    try:
        output = two.communicate(timeout=limit_s)[0] + one.communicate(timeout=240)[0]
    finally:
        stop(one)
        stop(two)
    assert (one.returncode, two.returncode) == (0, 0), output
    return {name: int(n) for name, n in re.findall(r"^(.+) (\d+)$", output, re.M)}


def nothing_arrived(counts: dict[str, int], count: int) -> None:
    """The right ones arrived, all of them: so the test can see what arrives."""
    refused = sum(
        counts[f"{kind} {t}"] for kind in ("blue", "limited", "both limited", "aside") for t in ("rc", "uc", "ud")
    )
    assert (refused, counts["wrong"]) == (count, 0), counts
    for t in ("rc", "uc", "ud"):
        assert counts[f"arrived {t}"] == counts[f"common {t}"], counts
    assert sum(counts[f"arrived {t}"] for t in ("rc", "uc", "ud")) == count // 100


def query(fabric: Applications, node: str, *arguments: str) -> str:
    return subprocess.run(
        fabric.on(node, *arguments), env=fabric.env, capture_output=True, text=True, check=True
    ).stdout


def found(pattern: str, text: str) -> str:
    return re.findall(pattern, text, re.M)[-1]


def refusals(fabric: Applications) -> Counter:
    """PKeyViolations and QKeyViolations of the victim's port, PortXmitConstraintErrors of the switch port before it. The
    manager's host asks: it is the only full member of the default partition."""
    info = query(fabric, C, "smpquery", "-D", "portinfo", "0", "1")
    source = found(r"^Lid:\.*(\d+)", query(fabric, B, "smpquery", "-D", "portinfo", "0", "1"))
    route = query(fabric, A, "ibtracert", source, found(r"^Lid:\.*(\d+)", info))
    switch, leaf = found(r"-> switch port .* lid (\d+)-", route), found(r"^\[(\d+)\] -> ca port", route)
    port = query(fabric, A, "perfquery", switch, leaf)
    return Counter(
        {
            "pkeys": int(found(r"^PkeyViolations:\.*(\d+)", info)),
            "qkeys": int(found(r"^QkeyViolations:\.*(\d+)", info)),
            "switch": int(found(r"^PortXmitConstraintErrors:\.*(\d+)", port)),
        }
    )


def traps(path: Path) -> Counter:
    """Numbers of the traps among the packets of a capture: MADs of class 1 with method Trap and attribute Notice."""
    octets, found, at = path.read_bytes(), Counter(), 0
    while (at := octets.find(b"\x01\x01\x01\x05", at)) >= 0:
        if octets[at + 16 : at + 18] == b"\x00\x02":
            found[int.from_bytes(octets[at + TRAP_AT : at + TRAP_AT + 2], "big")] += 1
        at += 1
    return found


@pytest.mark.stock
def test_every_refusal_is_counted_and_reported(parted, stock):
    stock("perfquery")
    before = refusals(parted)
    counts = strangers(parted, 200, 1)
    nothing_arrived(counts, 200)
    at_the_switch = sum(n for name, n in counts.items() if re.match(r"(blue|limited|both limited) ", name))
    at_the_port = sum(n for name, n in counts.items() if name.startswith("aside "))
    after = refusals(parted)
    grown = {name: after[name] - before[name] for name in after}
    assert grown == {"pkeys": at_the_port, "qkeys": counts["qkeys"], "switch": at_the_switch}, (grown, counts)
    assert wait_for(lambda: {257, 258} <= traps(parted.folder / "mads.pcap").keys())


def test_a_limited_member_and_a_full_one_exchange_messages(parted, stock):
    """Acknowledgements carry the responder's own P_Key, so that a limited sender hears those of a full member (IBA 10.9.3)."""
    first = {
        node: query(parted, node, "sh", "-c", "cat /sys/class/infiniband/*/ports/1/pkeys/0").split()[0]
        for node in (A, B, C)
    }
    full = next(node for node, pkey in first.items() if pkey == "0xffff")
    limited = next(node for node, pkey in first.items() if pkey == "0x7fff")
    program = stock("ib_send_lat")
    for port, (server, client) in (("18766", (full, limited)), ("18767", (limited, full))):
        one = parted.begin(server, program, "-n", "20", "-p", port)
        try:
            assert wait_for(lambda port=port: listens(int(port)))
            assert "99.9% percentile" in query(parted, client, program, "-n", "20", "-p", port, "127.0.0.1")
            assert one.wait(60) == 0
        finally:
            stop(one)


def listens(port: int) -> bool:
    """Whether a program listens at this TCP port of IPv4 or IPv6."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_a_switch_that_can_reports_it(up):
    """Trap 259, from a switch whose CapabilityMask has IsPKeySwitchExternalPortTrapSupported (bit 13)."""
    running = up(tree(2))
    f, raised = running.fabric, []
    a, z = cas_of(f)[0], cas_of(f)[-1]
    leaf = int(f.port_peer[z])
    end = int(f.node_base[f.port_node[leaf]])
    plane = running.daemon.router.plane
    plane.trap, trap = lambda notice, tid: (raised.append(notice), trap(notice, tid))[1], plane.trap

    def enforce() -> None:
        PortInfo.partition_enforcement_outbound.set(f.port_info[leaf], 1)
        PortInfo.cap_mask.set(
            f.port_info[end], int(PortInfo.cap_mask.get(f.port_info[end])) | CapMask.PKEY_EXT_PORT_TRAP
        )
        f.pkeys[f.pkey_base[leaf]] = 0xFFFF

    running.do(enforce)
    before = int(f.counters["port_xmit_constraint_errors"][leaf])
    program = running.start("count", at={"ways": [route_counts(f, a, z, [[0, 9, 90]], pkey=0x8123)], "then": "wait"})
    assert REASONS[line_of(program)[0][0]] == "pkey at switch"
    running.wait(lambda: raised)
    details = np.frombuffer(raised[0].data, np.uint8)
    got = {
        n: int(getattr(TrapBadSwitchPKey, n).get(details))
        for n in ("lid1", "lid2", "pkey", "qp1", "switch_lid", "portnum")
    }
    assert (raised[0].port, raised[0].trap) == (end, 259)
    assert got == {
        "lid1": int(f.lid[a]),
        "lid2": int(f.lid[z]),
        "pkey": 0x8123,
        "qp1": 0x11,
        "switch_lid": int(f.lid[end]),
        "portnum": int(f.port_num[leaf]),
    }
    assert int(f.counters["port_xmit_constraint_errors"][leaf]) - before == 9


@pytest.mark.stock
def test_twenty_thousand_attempts(parted, stock):
    stock("perfquery")
    nothing_arrived(strangers(parted, 20_000, 2), 20_000)


@pytest.mark.stock
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_attempts(parted, stock):
    stock("perfquery")
    nothing_arrived(strangers(parted, 1_000_000, 3, 900), 1_000_000)
    assert refusals(parted)["pkeys"] == 0xFFFF, "it stays at its end"
