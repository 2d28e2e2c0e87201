"""Adapters whose link layer is Ethernet: stock programs over RoCE v1 and v2.

What Linux shows of such a port: GIDs at 0 and 1 from the MAC, at 2 and 3 from the IPv4 address, RoCE v1 and v2 in turn
(ib_core's roce_gid_mgmt.c); no LIDs, no partitions but the default one, a GRH in every address. ConnectX-5 to 7 print
``link_layer: Ethernet``, ``sm_lid: 0``, ``port_lid: 0``, ``port_cap_flags: 0x04010000`` and ``max_vl_num: invalid value (0)``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from tests.live.serving import wait_for
from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import Applications, stop, wait_for_listener
from tests.preload.verbs.c_programs import program
from tests.preload.verbs.foreign.pyverbs_suite import PASSED, results_on
from tests.preload.verbs.foreign.trial import SCRIPTS, Trial

pytestmark = pytest.mark.stock
A, B = "host-0001", "host-0002"
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FABRIC = "name: roce\nnetwork: roce\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 4, levels: 1}\n"
PORT = {
    "state": "PORT_ACTIVE (4)",
    "max_mtu": "4096 (5)",
    "active_mtu": "4096 (5)",
    "sm_lid": "0",
    "port_lid": "0",
    "port_lmc": "0x00",
    "link_layer": "Ethernet",
    "port_cap_flags": "0x04010000",
    "max_vl_num": "invalid value (0)",
    "sm_sl": "0",
    "pkey_tbl_len": "1",
    "subnet_timeout": "0",
    "init_type_reply": "0",
    "phys_state": "LINK_UP (5)",
}


@pytest.fixture(scope="module")
def apps() -> Iterator[Applications]:
    fabric = Applications(FABRIC, file="roce.yaml")
    yield fabric
    fabric.close()


def test_a_port_as_ibv_devinfo_and_sysfs_show_it(apps, stock):
    output = apps("run", "--node", A, "--", stock("ibv_devinfo"), "-v")
    fields = dict(line.split(":\t", 1) for line in map(str.strip, output.splitlines()) if ":\t" in line)
    assert {name: fields[name].strip() for name in PORT} == PORT
    shown = [(line.split(":", 1)[1].strip().rsplit(", ", 1)) for line in output.splitlines() if "GID[" in line]
    assert [kind for _, kind in shown] == ["RoCE v1", "RoCE v2"] * 2
    gids = [IPv6Address(address) for address, _ in shown]
    assert gids[0] == gids[1] and gids[0].is_link_local and gids[2] == gids[3]
    assert str(gids[3].ipv4_mapped) == apps.address(A)
    files = "cd /sys/class/infiniband/mlx5_0/ports/1; head -qn1 link_layer lid gids/[0-4] gid_attrs/types/[0-3] gid_attrs/ndevs/[0-4]"
    lines = apps("run", "--node", A, "--", "sh", "-c", files).splitlines()
    assert lines[:2] == ["Ethernet", "0x0"] and [IPv6Address(line) for line in lines[2:6]] == gids
    assert int(IPv6Address(lines[6])) == 0 and lines[7:11] == ["IB/RoCE v1", "RoCE v2"] * 2
    assert lines[11:] == ["lo"] * 4, "an empty entry has no interface, and no line"


@pytest.mark.parametrize("kind,index", [("rc", 3), ("ud", 3), ("ud", 1)])
def test_pingpong(apps, stock, kind, index):
    """The UD program answers with an address handle that it makes of the network header that arrived."""
    port = next(apps.ports)
    check = ("-c",) if kind == "rc" else ()
    words = (stock(f"ibv_{kind}_pingpong"), "-g", str(index), "-n", "100", "-p", str(port), *check)
    server, client = apps.pair(words, (*words, "127.0.0.1"), tcp=port, nodes=(A, B))
    assert "100 iters in" in client and "invalid data" not in server + client


def test_rdma_cm_by_ip(apps, stock):
    ip = apps.address(A)
    words = (stock("rping"), "-a", ip, "-C", "5", "-v", "-V")
    _, client = apps.pair((*words, "-s"), (*words, "-c"), nodes=(A, B))
    assert "ping data: rdma-ping-4" in client


def refused(apps, stock, server: tuple[str, ...], client: tuple[str, ...]) -> str:
    """Output of both ends of ``ibv_rc_pingpong``, at least one of which must fail."""
    port = next(apps.ports)
    words = (stock("ibv_rc_pingpong"), "-n", "20", "-p", str(port))
    one = apps.begin(A, *words, *server)
    try:
        wait_for_listener(port, one)
        two = apps.begin(B, *words, *client, "127.0.0.1")
        assert wait_for(lambda: one.poll() is not None or two.poll() is not None, 60)
        assert one.poll() or two.poll()
        stop(one)
        stop(two)
        return one.communicate()[0] + two.communicate()[0]
    finally:
        stop(one)


REFUSALS = {
    "without a GRH": ((), (), "Failed to modify QP to RTR"),
    "two address families": (("-g", "1"), ("-g", "3"), "Failed to modify QP to RTR"),
    "RoCE v1 to v2": (("-g", "2"), ("-g", "3"), "transport retry counter exceeded"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSALS)
def test_addresses_that_do_not_work_on_hardware_either(apps, stock, name):
    server, client, message = REFUSALS[name]
    assert message in refused(apps, stock, server, client)


PERFTEST = [
    "ib_write_bw -x 3",
    "ib_send_lat -x 1",
    "ib_read_bw -x 2",
    "ib_atomic_lat -x 3",
    "ib_send_bw -c UD -x 3",
    "ib_write_lat",
    "ib_write_bw -R",
    "ib_send_bw -c UC -x 3",
    "ib_write_bw -c XRC -x 3",
]


@pytest.mark.slow
@pytest.mark.parametrize("line", PERFTEST)
def test_perftest(apps, stock, line):
    """Without ``-x`` perftest looks for a GID itself."""
    name, *options = line.split()
    port, ip = next(apps.ports), apps.address(A)
    words = (stock(name), *options, "-n", "200", "-F", "-p", str(port))
    tcp = 0 if "-R" in options else port
    _, client = apps.pair(words, (*words, ip if "-R" in options else "127.0.0.1"), tcp=tcp, nodes=(A, B))
    assert re.search(r"^ *\d+ +\d+ +\d", client, re.M), client
    assert "Link type       : Ethernet" in client


@pytest.mark.slow
def test_groups_and_datagrams_over_rdma_cm(apps, stock):
    """The group's GID is its IPv4 address, as Linux makes it for RoCE v2."""
    server, client = apps.pair((stock("udaddy"),), (stock("udaddy"), "-s", apps.address(A)), nodes=(A, B))
    assert "return status 0" in client and "return status 0" in server
    log, group = apps.folder / "mckey", ("-m", "239.1.2.3")
    one = apps.begin(A, "sh", "-c", f'exec stdbuf -oL "$@" > {log}', "sh", stock("mckey"), *group)
    assert wait_for(lambda: one.poll() is not None or (log.is_file() and "joined dgid" in log.read_text()))
    two = apps.begin(B, stock("mckey"), *group, "-s")
    output = two.communicate(timeout=240)[0] + one.communicate(timeout=240)[0] + log.read_text()
    assert (two.returncode, one.returncode) == (0, 0), output
    assert "joined dgid: ::ffff:239.1.2.3" in output and "data transfers complete" in log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["rc_v,ud_v", "ud_v"])
def test_ucx(apps, stock, transport):
    port = next(apps.ports)
    words = (stock("ucx_perftest"), "-t", "tag_bw", "-s", "65536", "-n", "200", "-p", str(port))
    _, client = apps.pair(words, (*words, "127.0.0.1"), tcp=port, nodes=(A, B), UCX_TLS=transport)
    assert "Final:" in client


@pytest.mark.slow
def test_rdma_cores_suite(apps, tmp_path):
    """Its tests choose addresses by the link layer; those of RoCE, which skip on InfiniBand, run here."""
    ends = {name: how for name, how, *_ in results_on(apps, A, tmp_path)}
    assert "failed" not in ends.values()
    assert list(ends.values()).count("passed") > PASSED


@pytest.fixture
def trial(apps, tmp_path, record_property) -> Trial:
    return Trial(apps, tmp_path, record_property, (A, B))


@pytest.mark.slow
@pytest.mark.parametrize("wheel,script", SCRIPTS)
def test_foreign_wheels(trial, wheel, script):
    trial.scripts(wheel, script)


@pytest.mark.slow
def test_nccl(apps, tmp_path):
    """NCCL chooses the GID itself: RoCE v2 over IPv4."""
    library = next((environment("nvidia-nccl-cu12")).glob("lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
    names = subprocess.run(["nm", library], capture_output=True, text=True).stdout
    place = re.search(r"^(\w+) d ncclNetIb$", names, re.M) or pytest.skip("this libnccl.so.2 has no names of its own")
    words = [program("nccl_net", EXAMPLES), str(library), place[1]]
    env = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "INFO"}
    ends = [
        apps.begin(node, *words, role, str(tmp_path / "handle"), "4", **env)
        for node, role in ((A, "server"), (B, "client"))
    ]
    output = [p.communicate(timeout=120)[0] for p in ends]
    assert all(re.search(r"^rounds 60 bytes \d+ bad 0$", text, re.M) for text in output), output
    assert "/RoCE" in output[0] + output[1]
