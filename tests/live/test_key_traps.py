"""Traps 257 and 258 raised by applications' own packets, and heard by stock OpenSM under the stock preload library.

A datagram of the stock library carries no Q_Key, so no MAD can have a wrong one: an unmodified program over pyverbs sends UD
datagrams with the wrong Q_Key, and with the P_Key of another partition that both hosts are in, to a queue pair.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.live.serving import PRELOAD, wait_for
from tests.verbs.applications import FABRIC, A, Applications, B, C, stop

pytestmark = pytest.mark.stock

PYTHON, PROGRAM = "/usr/bin/python3", str(Path(__file__).with_name("stranger_program.py"))
RULES = "Default=0x7fff, ipoib: ALL=full;\nRed=0x0001: 0x{0}=full, 0x{1}=full;\n"
NOTICE = re.compile(r"Generic Notice dump:\n((?:\t+.*\n)+)")


class Manager:
    """Stock OpenSM under the stock library on host A; switches enforce no partition, so hosts must refuse themselves."""

    def __init__(self, fabric: Applications, opensm: str):
        folder = fabric.folder
        told = [subprocess.run(fabric.on(node, "ibstat", "-p"), env=fabric.env, capture_output=True, text=True, check=True)
                for node in (B, C)]  # fmt: skip
        guids = [one.stdout.split()[0].removeprefix("0x") for one in told]
        (folder / "partitions.conf").write_text(RULES.format(*guids))
        self.log = folder / "opensm.log"
        words = fabric.words(
            "run", "--node", A, "--stock-preload", "--", opensm, "-f", str(self.log), "-D", "0x7", "-d2", "-Z", "off",
            "-P", str(folder / "partitions.conf"),
        )  # fmt: skip
        scratch = {"OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
        self.program = subprocess.Popen(
            words, env=fabric.env | scratch, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert wait_for(lambda: "SUBNET UP" in self.text(), 90), self.text()[-2000:]

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def of(self, trap: int) -> list[dict[str, str]]:
        notices = [dict(re.findall(r"^\t+(\w+)\.+(.*)$", d, re.M)) for d in NOTICE.findall(self.text())]
        return [n for n in notices if n["trap_num"] == str(trap)]


@pytest.fixture(scope="module")
def managed():
    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin") or pytest.skip("opensm is not installed")
    if not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
    if subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True, cwd="/").returncode:
        pytest.skip("python3-pyverbs is not installed")
    fabric = Applications(FABRIC, "--sm", "external")
    manager = None
    try:
        manager = Manager(fabric, opensm)
        yield fabric, manager
    finally:
        if manager is not None:
            stop(manager.program)
        fabric.close()


def lid_of(fabric: Applications, node: str) -> str:
    said = subprocess.run(fabric.on(node, "ibstat"), env=fabric.env, capture_output=True, text=True, check=True).stdout
    return re.search(r"Base lid: (\d+)", said)[1]


@pytest.mark.parametrize(("trap", "qkey", "pkey"), [(258, 0x9999, 0xFFFF), (257, 0x2222, 0x8001)])
def test_opensm_hears_of_a_datagram_with_the_wrong_key(managed, trap, qkey, pkey):
    fabric, manager = managed
    server = subprocess.Popen(
        fabric.on(C, PYTHON, "-I", PROGRAM, "serve", "0x2222"), env=fabric.env, cwd=fabric.folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        lid, qpn = server.stdout.readline().split()
        sender = fabric.begin(B, PYTHON, "-I", PROGRAM, "send", lid, qpn, hex(qkey), hex(pkey))
        said = sender.communicate(timeout=60)[0]
        assert sender.returncode == 0, said
        assert wait_for(lambda: manager.of(trap), 60), manager.text()[-2000:]
        told = manager.of(trap)[0]
        assert (told["lid1"], told["lid2"]) == (lid_of(fabric, B), lid), told
        assert int(told["key"], 16) == (qkey if trap == 258 else pkey), told
        assert int(told["qp2"], 16) == int(qpn) and int(told["qp1"], 16) == int(said.split()[-1]), told
        assert told["type"][0] == "2" and told["prod_type"][0] == "1", told
        words = fabric.on(A, "smpquery", "portinfo", lid, "1")
        field = "QkeyViolations" if trap == 258 else "PkeyViolations"
        shown = subprocess.run(words, env=fabric.env, capture_output=True, text=True, check=True).stdout
        assert int(re.search(rf"{field}:\.*(\d+)", shown)[1]) == 10, "each of the ten counts"
    finally:
        stop(server)
