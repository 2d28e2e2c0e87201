"""Unmodified programs of Debian over the device: ibverbs-utils, perftest, rdmacm-utils, UCX, libfabric."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from tests.live.serving import wait_for
from tests.preload.verbs.applications import A, B, stop, wait_for_listener

pytestmark = pytest.mark.stock


def test_devices(apps, stock):
    output = apps("run", "--node", A, "--", stock("ibv_devices"))
    assert re.search(r"mlx5_0\s+[0-9a-f]{16}", output)
    output = apps("run", "--node", A, "--", stock("ibv_devinfo"), "-v")
    assert (
        "PORT_ACTIVE (4)" in output
        and "link_layer:\t\tInfiniBand" in output
        and "active_speed:\t\t100.0 Gbps" in output
    )
    assert "GID[  0]:\t\tfe80:" in output


@pytest.mark.parametrize("kind", ["rc", "uc", "ud", "srq", "xsrq"])
def test_pingpong(apps, stock, kind):
    port = next(apps.ports)
    arguments = (stock(f"ibv_{kind}_pingpong"), "-n", "500", "-p", str(port))
    _, client = apps.pair(arguments, (*arguments, "127.0.0.1"), tcp=port)
    assert "500 iters in" in client or "success" in client, client


@pytest.mark.parametrize("more", [("-e",), ("-c",), ("-g", "0"), ("-o",)], ids=["events", "check", "GRH", "ODP"])
def test_rc_pingpong_options(apps, stock, more):
    """``-c`` checks the data; ``-o`` registers on demand."""
    port = next(apps.ports)
    arguments = (stock("ibv_rc_pingpong"), "-n", "200", "-p", str(port), *more)
    server, client = apps.pair(arguments, (*arguments, "127.0.0.1"), tcp=port)
    assert "200 iters in" in client and "invalid data" not in server + client


PERFTEST = [
    f"{op}_{what} -c {c}"
    for op in ("ib_write", "ib_send", "ib_read", "ib_atomic")
    for what in ("lat", "bw")
    for c in {"ib_write": ("RC", "UC", "XRC"), "ib_send": ("RC", "UC", "UD", "XRC")}.get(op, ("RC", "XRC"))
]
"""Every operation on every transport that has it."""
OPTIONS = [
    "ib_write_bw -a",
    "ib_write_bw -b",
    "ib_write_bw -q 8",
    "ib_send_bw -e",
    "ib_send_lat -e",
    "ib_send_bw --use-srq -q 4",
    "ib_send_bw -c UD -g",
    "ib_read_bw -o 4",
    "ib_atomic_bw -A CMP_AND_SWAP",
    "ib_write_bw -s 2 -I 2",
    "ib_send_bw -b -e",
    "ib_write_lat -a",
    "ib_write_bw -Q 1",
    "ib_write_bw -s 1048576 -D 1",
    "ib_write_bw -x 0",
    "ib_write_bw -l 8",
]


def perftest(apps, stock, line: str, *more: str, address: str = "127.0.0.1", tcp: bool = True) -> str:
    port = next(apps.ports)
    name, *arguments = line.split()
    count = () if "-D" in arguments else ("-n", "200")
    if "XRC" in arguments and "send" in name:
        arguments.append("--use-srq")
    server = (stock(name), *arguments, *count, "-F", "-p", str(port), *more)
    _, client = apps.pair(server, (*server, address), tcp=port if tcp else 0)
    assert re.search(r"^ *\d+ +\d+ +\d", client, re.M), client
    return client


@pytest.mark.parametrize("line", PERFTEST[::4])
def test_perftest(apps, stock, line):
    perftest(apps, stock, line)


@pytest.mark.slow
@pytest.mark.parametrize("line", PERFTEST)
def test_perftest_all(apps, stock, line):
    perftest(apps, stock, line)


@pytest.mark.slow
@pytest.mark.parametrize("line", OPTIONS)
def test_perftest_options(apps, stock, line):
    perftest(apps, stock, line)


@pytest.mark.parametrize("line", ["ib_write_bw", "ib_send_lat", "ib_read_bw", "ib_send_bw -c UD"])
def test_perftest_over_rdma_cm(apps, stock, line):
    perftest(apps, stock, line, "-R", address=apps.address(A), tcp=False)


@pytest.mark.slow
def test_rping_and_the_like(apps, stock):
    ip = apps.address(A)
    server, client = apps.pair(
        (stock("rping"), "-s", "-a", ip, "-C", "5", "-V"), (stock("rping"), "-c", "-a", ip, "-C", "5", "-v", "-V")
    )
    assert "ping data: rdma-ping-4" in client
    for program in ("ucmatose", "udaddy"):
        server, client = apps.pair((stock(program),), (stock(program), "-s", ip))
        assert "return status 0" in client and "return status 0" in server, program
    mode = (
        "-T",
        "b",
        "-T",
        "v",
    )  # both ask without end where nothing blocks, and a processor for two has 4 ms for each
    server, client = apps.pair((stock("rstream"), *mode), (stock("rstream"), "-s", ip, *mode))
    assert "64k_lat" in client, "sizes with the data verified"


@pytest.mark.slow
def test_mckey(apps, stock):
    """Multicast: joined at the SA, forwarded by the switches, replicated."""
    group = ("-m", "239.1.2.3")
    log = apps.folder / "mckey"
    arguments = ("sh", "-c", f'exec stdbuf -oL "$@" > {log}', "sh", stock("mckey"))
    one = apps.begin(A, *arguments, *group, "-b", apps.address(A))
    assert wait_for(lambda: one.poll() is not None or (log.is_file() and "joined dgid" in log.read_text()))
    two = apps.begin(B, stock("mckey"), *group, "-b", apps.address(B), "-s")
    output = two.communicate(timeout=240)[0], one.communicate(timeout=240)[0] + log.read_text()
    assert (two.returncode, one.returncode) == (0, 0), output
    assert "receiving data transfers" in output[1] and "data transfers complete" in output[1]


UCX = [
    pytest.param(transport, test, marks=() if test == "tag_lat" else pytest.mark.slow) for transport in ("rc_v", "ud_v")
    for test in ("tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "stream_bw", "stream_lat", "ucp_put_lat", "ucp_put_bw",
                 "ucp_get", "ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap", "ucp_am_lat", "ucp_am_bw")
]  # fmt: skip # a packed list of short values
"""All that ucx_perftest has."""
UCT = (
    [
        ("rc_verbs", f"{test} -D {how}")
        for test in ("am_lat", "am_bw", "put_lat", "put_bw", "get")
        for how in ("bcopy", "zcopy")
    ]
    + [("rc_verbs", test) for test in ("am_lat", "put_lat", "add_lat", "fadd", "cswap", "am_bw", "put_bw", "add_mr")]
    + [("ud_verbs", f"{test}{how}") for test in ("am_lat", "am_bw") for how in ("", " -D bcopy", " -D zcopy")]
)
"""The transports alone. The others end with "does not support": RC has no swap and no short get, UD only active messages."""


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "line"), UCT)
def test_uct(apps, stock, transport, line):
    port = next(apps.ports)
    size = "1024" if "copy" in line else "8"
    arguments = (
        stock("ucx_perftest"),
        "-t",
        *line.split(),
        "-x",
        transport,
        "-d",
        "mlx5_0:1",
        "-s",
        size,
        "-n",
        "500",
        "-w",
        "10",
        "-p",
        str(port),
    )
    _, client = apps.pair(arguments, (*arguments, "127.0.0.1"), tcp=port)
    assert re.search(r"Final: +500", client), client


@pytest.mark.parametrize(("transport", "test"), UCX)
def test_ucx(apps, stock, transport, test):
    port = next(apps.ports)
    size = "8" if test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap") else "65536"
    arguments = (stock("ucx_perftest"), "-t", test, "-s", size, "-n", "500", "-w", "10", "-p", str(port))
    _, client = apps.pair(
        arguments, (*arguments, "127.0.0.1"), tcp=port, UCX_TLS=f"{transport},self", UCX_NET_DEVICES="mlx5_0:1"
    )
    assert re.search(r"Final: +500", client), client


@pytest.mark.parametrize(
    "provider",
    [
        "verbs -e msg",
        "verbs;ofi_rxd -e rdm",
        pytest.param("verbs;ofi_rxm -e rdm", marks=pytest.mark.slow),
    ],
)
def test_libfabric(apps, stock, provider):
    """Data checked at both ends. Who ends with 0 has the other's last word, which comes after its last check. Over ofi_rxm the
    other may not end by itself (docs/verbs.md): it is not waited for long."""
    arguments = (stock("fi_pingpong"), "-p", *provider.split(), "-I", "10", "-c", "-B", str(next(apps.ports)))
    ends = [apps.begin(A, *arguments)]
    try:
        wait_for_listener(int(arguments[-1]), ends[0])
        ends.append(apps.begin(B, *arguments[:-2], "-P", arguments[-1], apps.address(A)))
        limit = time.monotonic() + 240
        while all(end.poll() is None for end in ends) and time.monotonic() < limit:
            time.sleep(0.05)
        ends.sort(key=lambda end: end.poll() is None)
        output = ends[0].communicate(timeout=60)[0]
        assert ends[0].returncode == 0 and re.search(r"^1m +10", output, re.M), output
        try:
            assert ends[1].wait(5 if "rxm" in provider else 240) == 0
        except subprocess.TimeoutExpired:
            assert "rxm" in provider
    finally:
        for end in ends:
            stop(end)
