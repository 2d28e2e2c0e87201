"""Where a packet of a wrong partition ends: at the switch port where it comes in, where it goes out, or at the host.

Stock OpenSM programs the tables and says which switches enforce them (``-Z``), stock ``ibping`` and ``perfquery`` send GMPs (P_Key
index 0 of the sender's port), stock ``perfquery`` and ``smpquery`` read who refused them.
"""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from softib.iba.constants import Method, SmpAttr
from softib.iba.smp import PortInfo
from tests.live.ibsim.lab import KEY, Tools, differs
from tests.live.serving import Raw, mad, wait_for

A, B, C = "host-0001", "host-0003", "host-0004"
"""The manager's host, full member of the default partition; two limited ones."""
LIMITED_DEFAULT, ALIEN = 0x7FFF, 0x8ABC
SWITCH_IN, SWITCH_OUT, HOST = "port_rcv_constraint_errors", "port_xmit_constraint_errors", "violations"


class Partitions(Tools):
    """A fabric that OpenSM brought up with limited members."""

    def __init__(self, command, stock, enforce: str):
        super().__init__(command, stock)
        (command.folder / "partitions.conf").write_text(
            "Default=0x7fff : ALL=limited, SELF=full, ALL_SWITCHES=full ;\n"
        )
        command.start("one.yaml", "--sm", "none")
        command.env["OSM_CACHE_DIR"] = command.env["OSM_TMP_DIR"] = str(command.folder)
        log = str(command.folder / "osm.log")
        well, said = self("opensm", "-o", "-Z", enforce, "-P", str(command.folder / "partitions.conf"), "-f", log)
        assert well, said
        self.servers: list[subprocess.Popen] = []
        f = self.fabric()
        self.port = {f.node_name(int(f.port_node[p])): int(p) for p in f.end_ports()}
        self.lid = {name: str(int(f.lid[p])) for name, p in self.port.items()}
        self.leaf = {name: int(f.port_peer[p]) for name, p in self.port.items()}

    def serve(self, *nodes: str) -> None:
        for node in nodes:
            words = self.softib.words("run", "--node", node, "--", self.stock("ibping"), "-S")
            self.servers.append(
                subprocess.Popen(
                    words,
                    env=self.softib.env,
                    cwd=self.softib.folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        assert wait_for(lambda: {c["node"] for c in self.softib.status()[0]["clients"]} >= set(nodes))
        for node in nodes:  # ibping registers its class behind opening the device
            assert wait_for(lambda node=node: self.ping(A if node != A else "host-0002", node, 1000) > 0)

    def ping(self, node: str, to: str, patience_ms: int = 100) -> int:
        """Answers to two pings; ``patience_ms`` long where they should come."""
        said = self("ibping", "-c", "2", "-t", str(patience_ms), self.lid[to], node=node)[1]
        return int(re.search(r", (\d+) received", said)[1])

    def refused(self, node: str) -> dict[str, int]:
        """What the leaf's port before ``node``, and the port of ``node``, refused, as stock tools read it on A."""
        f = self.fabric()
        leaf, portnum = int(f.port_node[self.leaf[node]]), str(int(f.port_num[self.leaf[node]]))
        told = self("perfquery", str(int(f.lid[f.node_base[leaf]])), portnum)[1]
        ends = self("smpquery", "portinfo", self.lid[node], "1")[1]
        read = lambda name, text: int(re.search(rf"^{name}:\.*(\d+)", text, re.M)[1])
        return {
            SWITCH_IN: read("PortRcvConstraintErrors", told),
            SWITCH_OUT: read("PortXmitConstraintErrors", told),
            HOST: read("PkeyViolations", ends),
        }

    def stop(self) -> None:
        for server in self.servers:
            server.terminate()
            server.wait()


@pytest.fixture
def partitions(softib, stock):
    made: list[Partitions] = []

    def make(enforce: str) -> Partitions:
        made.append(Partitions(softib, stock, enforce))
        return made[-1]

    yield make
    for one in made:
        one.stop()


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("enforce", "where"),
    [
        pytest.param("both", SWITCH_OUT, marks=slow),
        pytest.param("out", SWITCH_OUT, marks=slow),
        pytest.param("in", HOST, marks=slow),
        pytest.param("off", HOST, marks=slow),
    ],
)
def test_limited_members_cannot_talk(partitions, enforce, where):
    """IBA 10.9.1.2. A limited member's packets come into its switch (the partition is there), and do not go out to another
    limited one; without enforcement on the way out, the other's host refuses them."""
    room = partitions(enforce)
    f = room.fabric()
    for name, field in (
        ("in", PortInfo.partition_enforcement_inbound),
        ("out", PortInfo.partition_enforcement_outbound),
    ):
        assert bool(field.get(f.port_info)[room.leaf[C]]) == (enforce in (name, "both"))
    room.serve(A, C)
    assert room.ping(B, A, 5000) == 2, "limited to full"
    assert room.ping(B, C) == 0, "limited to limited"
    refused = room.refused(C)
    assert refused.pop(where) >= 2 and not any(refused.values())
    assert not any(room.refused(B).values())


@pytest.mark.parametrize(("enforce", "where"), [("both", SWITCH_IN), pytest.param("off", HOST, marks=slow)])
def test_a_partition_that_the_switch_does_not_know(partitions, enforce, where):
    """A host that gives itself a P_Key: the switch port before it holds the table that the manager wrote, and lets nothing in."""
    room = partitions(enforce)
    intruder = Raw(room.softib.status()[0]["sockname"], B)
    table = np.zeros(32, ">u2")
    table[0] = ALIEN
    intruder.send(mad(klass=0x81, method=Method.SET, attr=SmpAttr.PKEY_TABLE, data=table.tobytes()))
    assert intruder.receive()[0]["status"] == 0
    intruder.close()
    told = room("smpquery", "pkeys", room.lid[B], "1")[1]
    assert f"0x{ALIEN:04x}" in told and f"0x{LIMITED_DEFAULT:04x}" not in told
    room.serve(A)
    before = room.fabric()
    assert room.ping(B, A) == 0
    # An SMP is no matter of partitions (13.5.1), a GMP to the agent of a switch is.
    assert room("smpquery", "nodedesc", room.lid[A], node=B)[0]
    assert not room("perfquery", "-t", "50", room.lid[A], "1", node=B)[0]
    assert differs(before, room.fabric()) <= {"port_info"}, "nothing but violation counters"
    refused = room.refused(B if where == SWITCH_IN else A)
    assert refused.pop(where) >= 2 and not any(refused.values())


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_manager_without_the_key_changes_nothing(softib, stock, level):
    """OpenSM gives all ports an M_Key. Another one without it, which wants other LIDs, another engine and prefix, moves nothing."""
    softib.start("one.yaml", "--sm", "none")
    tools = Tools(softib, stock)

    def manager(name: str, *lines: str) -> list[str]:
        cache = softib.folder / f"cache-{name}"  # guid2mkey in it would hand the key over
        cache.mkdir()
        softib.env["OSM_CACHE_DIR"] = softib.env["OSM_TMP_DIR"] = str(cache)
        config = softib.folder / f"{name}.conf"
        config.write_text(
            "\n".join(("max_wire_smps 32", "transaction_timeout 50", "transaction_retries 1", *lines)) + "\n"
        )
        return [stock("opensm"), "-o", "-F", str(config), "-f", str(softib.folder / f"{name}.log")]

    def violations() -> int:
        return int(PortInfo.mkey_violations.get(tools.fabric().port_info).sum())

    mine = (f"m_key {KEY}", f"m_key_protection_level {level}", "m_key_lease_period 0")
    assert tools(*manager("owner", *mine))[0]
    f = tools.fabric()
    ends = f.end_ports()
    assert (PortInfo.mkey.get(f.port_info[ends]) == np.uint64(int(KEY, 0))).all()
    assert (PortInfo.mkey_protect.get(f.port_info[ends]) == level).all()
    other = ("lmc 1", "reassign_lids TRUE", "routing_engine updn", "subnet_prefix 0xfec0000000000001")
    words = softib.words("run", "--node", "host-0001", "--", *manager("stranger", *other))
    stranger = subprocess.Popen(
        words, env=softib.env, cwd=softib.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:  # at some levels it gives up, at others it tries again and again
        assert wait_for(lambda: violations() > 3 or stranger.poll() is not None) and violations()
    finally:
        stranger.terminate()
        stranger.wait()
    assert differs(f, tools.fabric()) == set()
    assert tools(*manager("again", *mine, *other))[0]
    assert differs(f, tools.fabric()) >= {"port_info"}, "its owner does"
