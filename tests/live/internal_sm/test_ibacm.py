"""Stock ibacm (rdma-core) on two hosts: it joins its group, resolves names, addresses and LIDs over multicast and unicast UD between the
hosts, and takes paths from our administrator; ``ib_acme`` compares each with what the administrator says itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.live.conftest import own_library  # noqa: F401  (a fixture)
from tests.live.lab import softib  # noqa: F401  (a fixture)
from tests.live.serving import wait_for
from tests.live.umad_sm.lab import fabric_of

PROVIDERS = Path("/usr/lib/x86_64-linux-gnu/ibacm")
OPTIONS = """log_file {folder}/acm-{host}.log
log_level 1
lock_file {folder}/lock-{host}
addr_prot acm
route_prot sa
server_mode unix
support_ips_in_addr_cfg 1
min_mtu 2048
min_rate 10
provider_lib_path {providers}
provider ibacmp default
"""
SCRIPT = """mount -t tmpfs none /run || exit 9
ibacm -P -A addr-{host} -O opts-{host} & child=$!
for i in $(seq 100); do [ -S /run/ibacm-unix.sock ] && break; sleep 0.1; done
sleep 1; touch up-{host}
{ask}
kill $child
"""


def acm(s, number: int, ask: str) -> subprocess.Popen:
    """ibacm on a host, in a mount namespace of its own (its socket has a fixed name); then ``ask``."""
    host, folder = f"host-000{number}", s.folder
    (folder / f"addr-{host}").write_text(f"{host} mlx5_0 1 default\n10.0.0.{number} mlx5_0 1 default\n")
    (folder / f"opts-{host}").write_text(OPTIONS.format(folder=folder, host=host, providers=PROVIDERS))
    (folder / f"go-{host}").write_text(SCRIPT.format(host=host, ask=ask))
    one = subprocess.Popen(
        s.words("run", "--node", host, "--", "unshare", "-m", "sh", f"go-{host}"),
        env=s.env,
        cwd=folder,
        stdout=(folder / f"out-{host}").open("w"),
        stderr=subprocess.STDOUT,
    )
    s.started.append(one)
    return one


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.timeout(240)
def test_names_addresses_and_lids_are_resolved(softib, stock):  # noqa: F811
    stock("ibacm"), stock("ib_acme")
    if os.geteuid() != 0 or not PROVIDERS.is_dir():
        pytest.skip("ibacm's socket has a fixed name: root is needed for a mount namespace")
    softib("up", "one.yaml", "--detach")
    f = fabric_of(softib)
    lid = {
        n: int(f.lid[f.port(next(c for c in f.cas if f.node_name(int(c)).split()[0] == f"host-000{n}"), 1)])
        for n in (2, 5)
    }
    other = acm(softib, 5, "for i in $(seq 600); do [ -f over ] && break; sleep 0.1; done")
    assert wait_for(lambda: (softib.folder / "up-host-0005").exists()), (softib.folder / "out-host-0005").read_text()
    asks = [("n", "host-0002", "host-0005"), ("i", "10.0.0.2", "10.0.0.5"), ("l", lid[2], lid[5])]
    asked = acm(softib, 2, "\n".join(f"ib_acme -f {kind} -s {a} -d {b} -v" for kind, a, b in asks) + "\ntouch over")
    assert asked.wait(120) is not None
    said = (softib.folder / "out-host-0002").read_text()
    assert said.count("SA verification: success") == len(asks), said
    assert said.count(f"dlid: {lid[5]}") == said.count(f"slid: {lid[2]}") == len(asks), said
    other.wait(60)
    log = (softib.folder / "acm-host-0002.log").read_text()
    assert "join successful" in log or "ERROR - " not in log.replace("ERROR - unable to allocate netlink", ""), log
