"""``softib target --pcap`` on Ethernet: Wireshark finds NVMe in RoCE v2, together with the connection's MADs."""

from __future__ import annotations

import contextlib
import signal
import subprocess

import pytest

from tests.ulp.nvmeof.nodes import FABRIC, Storage

pytestmark = [pytest.mark.slow, pytest.mark.stock]


@pytest.fixture
def storage():
    made = Storage(FABRIC + "network: roce\n", "--pcap", "mads.pcap")
    yield made
    with contextlib.suppress(AssertionError):  # the test has stopped the fabric
        made.close()


def test_capsules_on_ethernet_are_roce_frames(storage, stock):
    stock("tshark"), stock("mergecap")
    target = storage.export("disk.img", options=("--pcap", "capsules.pcap"))
    (storage.folder / "data").write_bytes(bytes(range(256)) * 64)
    storage.nvme("write", "data")
    storage.nvme("compare", "data")
    storage.end(target, signal.SIGTERM)
    storage("down")
    subprocess.run(["mergecap", "-w", "all.pcap", "mads.pcap", "capsules.pcap"], cwd=storage.folder, check=True)

    def tshark(*words: str) -> list[str]:
        done = subprocess.run(
            ["tshark", "-r", "all.pcap", *words], cwd=storage.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.splitlines()

    assert tshark("-Y", "_ws.malformed") == []
    sends = tshark("-Y", "infiniband.bth.opcode == 4", "-T", "fields", "-e", "_ws.col.Protocol", "-e", "ip.dst")
    assert {line.split("\t")[0] for line in sends} <= {"NVMe", "NVMe Fabrics RDMA"}, sends
    assert storage.target_address in {line.split("\t")[1] for line in sends}, sends
    assert tshark("-Y", "infiniband.bth.opcode == 4 && infiniband.lrh") == []
    lines = "\n".join(tshark("-Y", "nvme-rdma || nvme"))
    for name in ("NVMeOF Connect", "NVMe Identify Controller", "NVMe Write", "NVMe Compare", "CQE for Write"):
        assert name in lines, name
