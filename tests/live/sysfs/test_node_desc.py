"""A host describes its adapter through sysfs: NodeDescription follows, and the manager hears trap 144 of it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys

import pytest

from softib.fabric.topologies.registry import generate
from tests.live.ibsim.tools.tool_answers import named
from tests.live.ibsim.tools.tool_lab import Lab
from tests.live.ibsim.tools.trap_listener import Heard
from tests.live.serving import wait_for
from tests.live.umad.lab import needs_namespace
from tests.preload.verbs.applications import Applications

pytestmark = pytest.mark.stock

FILE = "/sys/class/infiniband/mlx5_0/node_desc"
HOST = "host-0003"


def shown(lab: Lab, node: str) -> str:
    code, said = lab.tool("own", "smpquery", "nodedesc", "-D", "0", node=node)
    assert code == 0, said
    return re.search(r"^Node Description:\.*(.*)$", said, re.M)[1]


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin") or pytest.skip("opensm is not installed")
    lab = Lab(generate("fat-tree", radix=4, levels=2, generation="QDR"), tmp_path_factory.mktemp("desc"), sm="external")
    one = Heard(lab, opensm, "stock")
    yield one
    one.sm.kill()
    one.sm.wait()
    lab.stop()


PYTHON_PLAIN = "import os; f = os.open({0!r}, os.O_WRONLY); os.write(f, {1!r}); os.close(f)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sh", "-c", f"echo compute-77 HCA-1 > {FILE}"], "compute-77 HCA-1"),
        (["sh", "-c", f"printf 'c7' > {FILE}"], "c7"),  # shorter than what stood there
        ([sys.executable, "-I", "-c", PYTHON_PLAIN.format(FILE, b"not truncated")], "not truncated"),
        (["sh", "-c", f"printf '%070d' 7 > {FILE}"], "0" * 64),
    ],
)
def test_what_a_program_writes_is_the_description_and_opensm_hears_of_it(heard, words, says):
    lab = heard.lab
    port, node = named(lab.f, "host-0003") if says == "compute-77 HCA-1" else heard.port, HOST
    heard.port = port
    heard.forget()
    done = subprocess.run(words, env=lab.environment("own", node), cwd=lab.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mine = lambda: [n for n in heard.of(144) if n["lid"] == str(lab.lid(port))]
    assert wait_for(mine), heard.notices()
    told = mine()[0]
    assert told["local_changes"] == "1" and int(told["change_flags"], 0) == 1, told
    # A trap of the description before may come again: until it is repressed.
    assert wait_for(lambda: lab.f.node_name(int(lab.f.port_node[port])) == says)
    assert shown(lab, node) == says
    read = subprocess.run(["cat", FILE], env=lab.environment("own", node), capture_output=True, text=True)
    assert read.stdout == f"{says}\n"


def test_nothing_and_the_same_change_nothing(heard):
    lab, f = heard.lab, heard.lab.f
    port = named(f, "host-0004")
    env = lab.environment("own", "host-0004")
    assert wait_for(lambda: not lab.daemon_.router.trap_queue.pending), "OpenSM represses what it has heard"
    sent = lab.daemon_.router.trap_queue.counts.sent
    read = lambda: subprocess.run(["cat", FILE], env=env, capture_output=True, text=True).stdout.strip()
    for text in ("", "host-0004"):
        subprocess.run(["sh", "-c", f"printf '%s' '{text}' > {FILE}"], env=env, check=True)
        assert wait_for(lambda: read() == "host-0004")
    lid = FILE.replace("node_desc", "ports/1/lid")
    done = subprocess.run(["sh", "-c", f"echo 7 > {lid}"], env=env, capture_output=True, text=True)
    assert done.returncode != 0 and "ermission denied" in done.stderr, "nothing else can be written"
    assert f.node_name(int(f.port_node[port])) == "host-0004"
    assert lab.daemon_.router.trap_queue.counts.sent == sent


@needs_namespace
def test_a_program_in_a_namespace_writes_it_too():
    """And nothing else of the tree; ``softib status`` and the tools know the new name."""
    fabric = Applications("name: apps\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n")
    try:
        script = f"echo renamed > {FILE} && ! echo 7 2>&- > {FILE.replace('node_desc', 'ports/1/lid')}"
        words = fabric.arguments("run", "--node", "host-0002", "--ns", "--", "sh", "-c", script)
        subprocess.run(words, env=fabric.env, check=True)
        names = lambda: (
            subprocess.run(
                fabric.on("host-0001", "ibhosts"), env=fabric.env, capture_output=True, text=True, check=True
            ).stdout
        )
        assert wait_for(lambda: '"renamed"' in names()), names()
        assert '"host-0002"' not in names() and fabric.status()["bugs"] == 0
    finally:
        fabric.close()


def test_rdma_ndd_of_rdma_core_names_every_adapter(heard):
    """It opens the file for reading and writing, and writes a shorter text over a longer one."""
    ndd = shutil.which("rdma-ndd", path="/usr/sbin:/usr/bin") or pytest.skip("rdma-ndd (rdma-core) is not installed")
    lab, f = heard.lab, heard.lab.f
    port = named(f, "host-0006")
    env = lab.environment("own", "host-0006")
    subprocess.run(["sh", "-c", f"printf '%060d' 6 > {FILE}"], env=env, check=True)
    assert wait_for(lambda: f.node_name(int(f.port_node[port])).startswith("000"))
    daemon = subprocess.Popen([ndd, "-f"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        mine = f"{socket.gethostname().split('.')[0]} mlx5_0"
        assert wait_for(lambda: f.node_name(int(f.port_node[port])) == mine), f.node_name(int(f.port_node[port]))
    finally:
        daemon.kill()
        daemon.wait()
