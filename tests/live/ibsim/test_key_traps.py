"""Traps 257 to 259 raised by applications' own packets, and heard by stock OpenSM under the stock preload library.

A datagram of the stock library carries no Q_Key, so no MAD can have a wrong one: an unmodified program over pyverbs sends UD
datagrams with the wrong Q_Key, and with the P_Key of another partition that both hosts are in, to a queue pair.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from softib.iba.constants import Method, SmpAttr
from tests.live.serving import PRELOAD, Raw, mad, wait_for
from tests.preload.verbs.applications import FABRIC, A, Applications, B, C, stop

pytestmark = pytest.mark.stock

D, ALIEN = "host-0006", 0x8ABC
"""A host that is in the default partition alone; a P_Key that nobody gave out."""
PYTHON, PROGRAM = "/usr/bin/python3", str(Path(__file__).with_name("stranger_program.py"))
RULES = "Default=0x7fff, ipoib: ALL=full;\nRed=0x0001: 0x{0}=full, 0x{1}=full;\n"
NOTICE = re.compile(r"Generic Notice dump:\n((?:\t+.*\n)+)")


class Manager:
    """Stock OpenSM under the stock library on host A; ``enforce``: which switch ports enforce partitions (``-Z``)."""

    def __init__(self, fabric: Applications, opensm: str, enforce: str):
        folder = fabric.folder
        told = [
            subprocess.run(fabric.on(node, "ibstat", "-p"), env=fabric.env, capture_output=True, text=True, check=True)
            for node in (B, C)
        ]
        guids = [one.stdout.split()[0].removeprefix("0x") for one in told]
        (folder / "partitions.conf").write_text(RULES.format(*guids))
        self.log = folder / "opensm.log"
        words = fabric.arguments(
            "run",
            "--node",
            A,
            "--stock-preload",
            "--",
            opensm,
            "-f",
            str(self.log),
            "-D",
            "0x7",
            "-d2",
            "-Z",
            enforce,
            "-P",
            str(folder / "partitions.conf"),
        )
        scratch = {"OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
        self.program = subprocess.Popen(
            words,
            env=fabric.env | scratch,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert wait_for(lambda: "SUBNET UP" in self.text()), self.text()[-2000:]

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def of(self, trap: int) -> list[dict[str, str]]:
        notices = [dict(re.findall(r"^\t+(\w+)\.+(.*)$", d, re.M)) for d in NOTICE.findall(self.text())]
        return [n for n in notices if n["trap_num"] == str(trap)]


def brought_up(enforce: str) -> Iterator[tuple[Applications, Manager]]:
    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin") or pytest.skip("opensm is not installed")
    if not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
    if subprocess.run([PYTHON, "-c", "import pyverbs.qp"], capture_output=True, cwd="/").returncode:
        pytest.skip("python3-pyverbs is not installed")
    fabric = Applications(FABRIC, "--sm", "external")
    manager = None
    try:
        manager = Manager(fabric, opensm, enforce)
        yield fabric, manager
    finally:
        if manager is not None:
            stop(manager.program)
        fabric.close()


@pytest.fixture(scope="module")
def managed():
    """No switch enforces: hosts must refuse themselves."""
    yield from brought_up("off")


@pytest.fixture
def enforced():
    yield from brought_up("both")


@contextmanager
def served(fabric: Applications, node: str) -> Iterator[tuple[str, str]]:
    """LID and number of a UD queue pair on ``node``, default partition, Q_Key 0x2222."""
    server = subprocess.Popen(
        fabric.on(node, PYTHON, "-I", PROGRAM, "serve", "0x2222"),
        env=fabric.env,
        cwd=fabric.folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        lid, qpn = server.stdout.readline().split()
        yield lid, qpn
    finally:
        stop(server)


def ten_datagrams(fabric: Applications, lid: str, qpn: str, qkey: int, pkey: int) -> str:
    """From host B; its queue pair's number."""
    sender = fabric.begin(B, PYTHON, "-I", PROGRAM, "send", lid, qpn, hex(qkey), hex(pkey))
    said = sender.communicate(timeout=240)[0]
    assert sender.returncode == 0, said
    return said.split()[-1]


def asked(fabric: Applications, *words: str) -> str:
    return subprocess.run(fabric.on(A, *words), env=fabric.env, capture_output=True, text=True, check=True).stdout


def lid_of(fabric: Applications, node: str) -> str:
    said = subprocess.run(fabric.on(node, "ibstat"), env=fabric.env, capture_output=True, text=True, check=True).stdout
    return re.search(r"Base lid: (\d+)", said)[1]


@pytest.mark.parametrize(("trap", "qkey", "pkey"), [(258, 0x9999, 0xFFFF), (257, 0x2222, 0x8001)])
def test_opensm_hears_of_a_datagram_with_the_wrong_key(managed, trap, qkey, pkey):
    fabric, manager = managed
    with served(fabric, C) as (lid, qpn):
        source = ten_datagrams(fabric, lid, qpn, qkey, pkey)
        assert wait_for(lambda: manager.of(trap)), manager.text()[-2000:]
        told = manager.of(trap)[0]
        assert (told["lid1"], told["lid2"]) == (lid_of(fabric, B), lid), told
        assert int(told["key"], 16) == (qkey if trap == 258 else pkey), told
        assert int(told["qp2"], 16) == int(qpn) and int(told["qp1"], 16) == int(source), told
        assert told["type"][0] == "2" and told["prod_type"][0] == "1", told
        field = "QkeyViolations" if trap == 258 else "PkeyViolations"
        shown = asked(fabric, "smpquery", "portinfo", lid, "1")
        assert int(re.search(rf"{field}:\.*(\d+)", shown)[1]) == 10, "each of the ten counts"


@pytest.mark.slow
def test_switch_ports_count_what_they_refuse_of_applications(enforced):
    """In: a P_Key that the sender gave itself. Out: one of a partition that the receiver is not in. (IBA 18.2.4.2)"""
    fabric, manager = enforced
    intruder = Raw(fabric.status()["sockname"], B)
    block = {"klass": 0x81, "attr": SmpAttr.PKEY_TABLE}
    intruder.send(mad(method=Method.GET, **block))
    table = intruder.receive()[1][64:128].copy().view(">u2")
    table[list(table).index(0)] = ALIEN
    intruder.send(mad(method=Method.SET, data=table.tobytes(), **block))
    assert intruder.receive()[0]["status"] == 0
    intruder.close()
    with served(fabric, D) as (lid, qpn):
        own = lid_of(fabric, B)
        way = asked(fabric, "ibtracert", own, lid)
        hops = re.findall(r"\[(\d+)\] -> switch port \S+\[(\d+)\] lid (\d+)-", way)
        first, last = hops[0], hops[-1]
        out = re.search(r"^\[(\d+)\] -> ca port", way, re.M)[1]
        for pkey, switch, port, field in (
            (ALIEN, first[2], first[1], "PortRcvConstraintErrors"),
            (0x8001, last[2], out, "PortXmitConstraintErrors"),
        ):
            read = lambda: int(re.search(rf"{field}:\.*(\d+)", asked(fabric, "perfquery", switch, port))[1])  # noqa: B023
            before, heard = read(), len(manager.of(259))
            ten_datagrams(fabric, lid, qpn, 0x2222, pkey)
            assert wait_for(lambda: read() == before + 10), (field, read())  # noqa: B023
            assert wait_for(lambda: len(manager.of(259)) > heard), manager.text()[-2000:]  # noqa: B023
            told = manager.of(259)[-1]
            assert (told["sw_lid"], told["port_no"], told["lid1"], told["lid2"]) == (switch, port, own, lid), told
            assert int(told["pkey"], 16) == pkey, told
        shown = asked(fabric, "smpquery", "portinfo", lid, "1")
        assert int(re.search(r"PkeyViolations:\.*(\d+)", shown)[1]) == 0, "nothing came through"
