"""Programs of others at the target: Debian's nvme-cli by an ioctl shim, fio by NBD, Wireshark's dissector, PyPI's nvmeof initiator."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from softib.preload import build
from tests.preload.foreign_wheels import environment
from tests.ulp.nvmeof.nodes import DISK, HOST, OTHER, Storage

pytestmark = [pytest.mark.slow, pytest.mark.stock]
HERE = Path(__file__).resolve().parent
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
NQN = "nqn.2026-11.softib:target"


@pytest.fixture(scope="module")
def storage():
    made = Storage(
        "name: nvme\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n", "--pcap", "mads.pcap"
    )
    made.capturing = made.export("disk.img", options=("--pcap", "capsules.pcap"))
    yield made
    with contextlib.suppress(AssertionError):  # the last test has stopped the fabric
        made.close()


class Cli:
    """nvme-cli whose /dev/nvme0 is a controller of ``nqn``."""

    def __init__(self, storage: Storage, nqn: str):
        self.shim = storage.folder / "shim.so"
        subprocess.run(
            [
                build.compiler(),
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                "-o",
                self.shim,
                HERE / "ioctl_shim.c",
                "-ldl",
            ],
            check=True,
        )
        self.socket = storage.folder / f"{nqn[-9:]}.sock"
        words = [sys.executable, str(HERE / "ioctl_server.py"), storage.target_address, nqn, str(self.socket)]
        self.program = subprocess.Popen(
            storage.arguments("run", "--node", OTHER, "--", *words),
            env=storage.env,
            cwd=storage.folder,
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.program.stdout.readline() == "ready\n"
        self.env = {**os.environ, "LD_PRELOAD": str(self.shim), "NVME_SHIM": str(self.socket)}

    def __call__(self, *words: str) -> dict:
        done = subprocess.run(["nvme", *words, "-o", "json"], env=self.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait()


@pytest.fixture
def cli(storage, stock, request):
    stock("nvme")
    made = Cli(storage, getattr(request, "param", NQN))
    yield made
    made.close()


def test_nvme_cli_reads_the_pages(cli):
    controller = cli("id-ctrl", "/dev/nvme0")
    assert controller["subnqn"] == NQN
    assert (controller["mdts"], controller["ioccsz"], controller["iorcsz"], controller["nn"]) == (5, 260, 1, 1)
    assert controller["sgls"] & 1 << 2
    space = cli("id-ns", "/dev/nvme0", "-n", "1")
    assert space["nsze"] * (1 << space["lbafs"][space["flbas"] & 15]["ds"]) == DISK
    assert cli("list-ns", "/dev/nvme0")["nsid_list"] == [{"nsid": 1}]
    descriptors = json.dumps(cli("ns-descs", "/dev/nvme0", "-n", "1"))
    assert space["nguid"] in descriptors.replace("-", ""), descriptors
    [group] = cli("ana-log", "/dev/nvme0")["ANA DESC LIST "]
    assert (group["grpid"], group["state"]) == (1, "optimized")
    assert cli("smart-log", "/dev/nvme0")["avail_spare"] == 100
    assert cli("error-log", "/dev/nvme0", "-e", "1")["errors"][0]["error_count"] == 0


@pytest.mark.parametrize("cli", [DISCOVERY], indirect=True)
def test_nvme_cli_reads_the_discovery_log(storage, cli):
    """In a mount namespace whose /sys/class/nvme names the controller as Linux does."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace here")
    attributes = {
        "subsysnqn": DISCOVERY,
        "transport": "rdma",
        "address": f"traddr={storage.target_address},trsvcid=4420",
        "state": "live",
        "cntrltype": "discovery",
    }
    script = "mount -t tmpfs none /sys/class && mkdir -p /sys/class/nvme/nvme0 /sys/class/nvme-subsystem/nvme-subsys0/nvme0\n"
    script += "".join(f"echo {value} > /sys/class/nvme/nvme0/{name}\n" for name, value in attributes.items())
    script += f"echo {DISCOVERY} > /sys/class/nvme-subsystem/nvme-subsys0/subsysnqn\n"
    script += f"LD_PRELOAD={cli.shim} nvme discover --device=nvme0 -o json\n"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env={**cli.env, "LD_PRELOAD": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    [entry] = json.loads(done.stdout)["records"]
    assert (entry["subnqn"], entry["traddr"], entry["trsvcid"]) == (NQN, storage.target_address, "4420")
    assert (entry["trtype"], entry["adrfam"], entry["subtype"]) == ("rdma", "ipv4", "nvme subsystem")


def test_fio_verifies_a_network_block_device(storage, stock):
    stock("fio")
    engines = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True).stdout
    if "nbd" not in engines:
        pytest.skip("this fio has no nbd engine")
    program = storage.begin_softib(HOST, "nvme", "nbd", storage.target_address, "--socket", "nbd.sock")
    words = [
        "fio",
        "--name=x",
        "--ioengine=nbd",
        f"--uri=nbd+unix:///?socket={storage.folder}/nbd.sock",
        "--rw=randrw",
        "--bs=4k",
        "--size=4M",
        "--iodepth=4",
        "--verify=crc32c",
        "--output-format=json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, cwd=storage.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    [job] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    assert (job["error"], job["read"]["io_bytes"] >= 4 << 20, job["write"]["io_bytes"] > 0) == (0, True, True)
    assert storage.end(program, signal.SIGTERM).count("\n") <= 1
    assert not (storage.folder / "nbd.sock").exists()


def test_the_initiator_of_pypi(storage):
    """nvmeof: 1 MiB there and back, a flush, and an error with its status."""
    python = str(environment("nvmeof") / "bin" / "python")
    text = (
        "import os, sys, nvmeof\n"
        f"with nvmeof.Controller.connect(sys.argv[1], {NQN!r}, source=os.environ['SOFTIB_ADDRESS']) as c:\n"
        "    n, data = c.namespace(1), os.urandom(1 << 20)\n"
        "    with c.allocate(1 << 20) as b:\n"
        "        b.write(data); n.write(b, 512); n.flush(); b.write(bytes(1 << 20)); n.read(b, 512)\n"
        "        assert b.read() == data\n"
        "        try: c.io.execute(nvmeof.protocol.rw_command(2, 1, 1 << 40, 1, b, lba_size=4096), data_owner=b)\n"
        "        except OSError as error: print(error)\n"
    )
    words = storage.arguments(
        "run", "--node", HOST, "--", "env", "-u", "PYTHONPATH", python, "-c", text, storage.target_address
    )
    done = subprocess.run(words, env=storage.env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "SCT=0 SC=0x80 DNR" in done.stdout


def test_wireshark_dissects_every_capsule(storage, stock):
    """The capture of MADs has the connections, that of the target the capsules; the last test, since it ends the target."""
    stock("tshark")
    (storage.folder / "in.bin").write_bytes(os.urandom(8192))
    storage.nvme("write", "in.bin")
    (storage.folder / "in.bin").write_bytes(os.urandom(4096))
    storage.nvme("write", "in.bin")  # in its capsule: two packets
    storage.nvme("read", "--size", "16k", "--to", "out.bin")
    storage.nvme("zero", "--size", "16k")
    storage.nvme("flush")
    storage.end(storage.capturing, signal.SIGTERM)
    storage("down")
    subprocess.run(["mergecap", "-w", "all.pcap", "mads.pcap", "capsules.pcap"], cwd=storage.folder, check=True)

    def tshark(*words: str) -> list[str]:
        done = subprocess.run(
            ["tshark", "-r", "all.pcap", *words], cwd=storage.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.splitlines()

    assert tshark("-Y", "_ws.malformed") == []
    lines = "\n".join(tshark("-Y", "nvme-rdma || nvme"))
    for name in (
        "NVMeOF Connect",
        "Property Get Controller Capabilities",
        "Property Set",
        "NVMe Identify Controller",
        "Get Log Page NVMeOF Discovery",
        "Set Features",
        "NVMe Write",
        "NVMe Read",
        "Write Zero",
        "NVMe Flush",
        "CQE for Write",
        "CQE for Read",
    ):
        assert name in lines, name
    capsules = tshark("-Y", "infiniband.bth.opcode == 4 && infiniband.lrh", "-T", "fields", "-e", "_ws.col.Protocol")
    assert set(capsules) <= {"NVMe", "NVMe Fabrics RDMA"}, set(capsules)
