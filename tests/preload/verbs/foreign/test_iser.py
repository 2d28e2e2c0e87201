"""Block storage over iSER between two nodes: Debian's tgtd serves a file, libiscsi's programs and QEMU's block layer read and write it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time

import pytest

from tests.preload.verbs.applications import A, B, stop

pytestmark = [pytest.mark.stock, pytest.mark.slow]

TARGET, INITIATOR = "iqn.2026-11.test.softib:disk", "iqn.2026-11.test.softib:host"
SIZE = 32 << 20


class Target:
    """tgtd on a node, with a TCP portal on a port of its own. (``--iser port=`` fails in tgt 1.0.85, without softib, too.)"""

    def __init__(self, apps, stock, tmp_path):
        self.apps, self.stock, self.port = apps, stock, next(apps.ports)
        self.disk = tmp_path / "disk"
        self.disk.write_bytes(bytes(SIZE))
        self.control = {"TGT_IPC_SOCKET": str(tmp_path / "tgt")}
        self.daemon = apps.begin(
            B,
            stock("tgtd"),
            "-f",
            "--iser",
            "pool_sz_mb=128",
            "--iscsi",
            f"portal=127.0.0.1:{self.port}",
            **self.control,
        )
        end = time.monotonic() + 60
        while self.manage("--op", "show", "--mode", "system").returncode and time.monotonic() < end:
            assert self.daemon.poll() is None, self.daemon.communicate()[0]
            time.sleep(0.1)
        for words in (
            f"--op new --mode target -T {TARGET}",
            f"--op new --mode logicalunit --lun 1 -b {self.disk}",
            "--op bind --mode target -I ALL",
            f"--op bind --mode target -Q {INITIATOR}",
        ):
            done = self.manage("--lld", "iser", "--tid", "1", *words.split())
            assert done.returncode == 0, (words, done.stderr)

    def manage(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.stock("tgtadm"), *words],
            env={**self.apps.env, **self.control},
            capture_output=True,
            text=True,
            timeout=60,
        )

    @property
    def url(self) -> str:
        return f"iscsi://{self.apps.address(B)}/{TARGET}/1?iser"

    def run(self, *words: str, rc: int = 0) -> str:
        done = subprocess.run(
            self.apps.on(A, *words), env=self.apps.env, capture_output=True, text=True, timeout=120, errors="replace"
        )
        assert done.returncode == rc, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def target(apps, request, tmp_path_factory):

    def found(name: str) -> str:
        return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") or pytest.skip(
            f"no {name}: apt install tgt libiscsi-bin"
        )

    found("iscsi-inq")
    made = Target(apps, found, tmp_path_factory.mktemp("iser"))
    yield made
    stop(made.daemon)


def test_the_disk_is_there(target):
    """The first command after the login is answered, twenty times; once it came before the login's own completion."""
    for _ in range(20):
        out = target.run("iscsi-readcapacity16", "-i", INITIATOR, target.url)
        assert f"Total size:{SIZE}" in out, out


@pytest.mark.parametrize(
    "test",
    (
        "Read10.Simple",
        "Read16",
        "Write10.Simple",
        "Write16",
        "WriteVerify10",
        "CompareAndWrite",
        "OrWrite",
        "WriteSame10",
    ),
)
def test_libiscsi_own_tests(target, test):
    """Not ``Async``: libiscsi 1.19 has 256 descriptors, takes the 257th from an empty list, and dies."""
    out = target.run("iscsi-test-cu", "--dataloss", "-i", INITIATOR, "-t", f"SCSI.{test}", target.url)
    ran, passed, failed = map(int, re.search(r"tests +\d+ +(\d+) +(\d+) +(\d+)", out).groups())
    assert ran == passed > 0 and not failed, out


def test_written_data_is_in_the_file_of_the_target(target):
    """In pieces of 256 KiB, the most that libiscsi 1.19 takes."""

    if shutil.which("qemu-io") is None:
        pytest.skip("no qemu-io: apt install qemu-utils qemu-block-extra")
    options = (
        f"driver=raw,file.driver=iscsi,file.transport=iser,file.portal={target.apps.address(B)},"
        f"file.target={TARGET},file.lun=1,file.initiator-name={INITIATOR}"
    )
    piece, pieces = 256 << 10, range(64)
    commands = [f"write -P {i + 1} {i * piece} {piece}" for i in pieces] + ["write -P 0xee 4608 512", "flush"]
    commands += [f"read -P {i + 1} {i * piece} {piece}" for i in pieces[1:]]
    target.run("qemu-io", "--image-opts", options, *(word for c in commands for word in ("-c", c)))
    data = target.disk.read_bytes()
    wanted = bytearray(b"".join(bytes([i + 1]) * piece for i in pieces))
    wanted[4608:5120] = b"\xee" * 512
    assert data[: len(wanted)] == wanted
