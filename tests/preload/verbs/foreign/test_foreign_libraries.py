"""Libraries of Debian, each called by a small program of ``nodes``; and Ceph."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.serving import wait_for
from tests.preload.verbs.applications import A, B, C, ended, stop
from tests.preload.verbs.foreign.trial import CHECKED, NODES

pytestmark = [pytest.mark.stock, pytest.mark.slow]


def test_gloo_reduces_by_its_ibverbs_transport(trial):
    program = trial.compiled("gloo_allreduce.cc", "-lgloo", "-libverbs")
    trial.compare(*([program, rank, str(trial.folder)] for rank in "01"))


def test_librpma_writes_flushes_and_reads(trial):
    """Over rdma_cm, to a server that listens."""
    program, port, before = trial.compiled("rpma.c", "-lrpma", "-libverbs"), str(next(trial.apps.ports)), trial.sent()
    words = [trial.apps.address(A), port]
    server = trial.apps.begin(A, program, "server", *words)
    try:
        assert server.stdout.readline() == "listening\n"
        output = "\n".join(ended(server, trial.apps.begin(B, program, "client", *words), 150))
    finally:
        stop(server)
    checked = [int(size) for size in CHECKED.findall(output)]
    assert len(checked) == 2, output
    trial.count(sum(checked), before)


OBJECT = 6_000_000


class Ceph:
    """Commands of Ceph in ``folder``, each on a node."""

    def __init__(self, apps, folder: Path):
        self.apps, self.folder, self.monitor = apps, folder, f"v1:{apps.address(A)}:6789"
        text = (NODES / "ceph.conf").read_text()
        for key, file in (("mon_data", "mon.$id"), ("osd_data", "osd.$id"), ("keyring", "keyring"), ("run_dir", "")):
            text += f"{key} = {folder}/{file}\n"
        (folder / "ceph.conf").write_text(f"{text}mon_host = {self.monitor}\n")

    def arguments(self, name: str, *arguments: str) -> list[str]:
        return [name, "-c", str(self.folder / "ceph.conf"), *arguments]

    def here(self, *command: str) -> None:
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, timeout=120)

    def run(self, node: str, name: str, *arguments: str) -> subprocess.CompletedProcess:
        command = self.apps.on(node, *self.arguments(name, *arguments))
        return subprocess.run(command, env=self.apps.env, cwd=self.folder, capture_output=True, text=True, timeout=120)

    def on(self, node: str, name: str, *arguments: str) -> str:
        """Its output. Without keys, Ceph's client may send a command before it has the monitors' map, with a zero fsid, which the monitor
        refuses ("wrong fsid" with debug_mon = 10); nothing was executed then."""
        done = self.run(node, name, *arguments)
        for _ in range(20):
            if "EPERM: problem getting command descriptions" not in done.stderr:
                break
            done = self.run(node, name, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def daemon(self, node: str, name: str, *arguments: str) -> Iterator[None]:
        log = self.folder / f"{name}.log"
        command = self.apps.on(node, *self.arguments(name, "-f", *arguments))
        with log.open("w") as output:
            one = subprocess.Popen(
                command, env=self.apps.env, cwd=self.folder, stdout=output, stderr=output, start_new_session=True
            )
        try:
            yield
        finally:
            stop(one)


def test_ceph_stores_objects_over_its_rdma_messenger(apps, trial, stock, tmp_path):
    """A monitor, an object store and a client on three nodes; the object that comes back is compared."""
    for name in ("ceph-mon", "ceph-osd", "ceph", "rados", "monmaptool"):
        stock(name)
    ceph, identity = Ceph(apps, tmp_path), "5a762e17-2bbf-4980-9a6e-f42a80647b87"
    (tmp_path / "object").write_bytes(os.urandom(OBJECT))
    (tmp_path / "keyring").write_text("")
    (tmp_path / "osd.0").mkdir()
    fsid = "6a1b4b5c-4b8a-4c80-9f4e-1f1f6f1f2f3f"
    ceph.here("monmaptool", "--create", "--addv", "a", f"[{ceph.monitor}]", "--fsid", fsid, "monmap")
    ceph.here("ceph-authtool", "keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
    ceph.here(*ceph.arguments("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap"))
    before = trial.sent()
    with ceph.daemon(A, "ceph-mon", "-i", "a", "--public-addr", ceph.monitor):
        assert wait_for(lambda: ceph.run(C, "ceph", "mon", "stat").returncode == 0, 120)
        assert ceph.on(C, "ceph", "osd", "new", identity).strip() == "0"
        ceph.on(B, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity)
        address = apps.address(B)
        with ceph.daemon(B, "ceph-osd", "-i", "0", "--public-addr", address, "--cluster-addr", address):
            assert wait_for(lambda: "1 up" in ceph.on(C, "ceph", "osd", "stat"), 120)
            ceph.on(C, "ceph", "osd", "crush", "add", "osd.0", "1", "root=default", "host=one")
            ceph.on(C, "ceph", "osd", "pool", "create", "t", "8", "8")
            ceph.on(C, "rados", "-p", "t", "put", "one", "object")
            ceph.on(C, "rados", "-p", "t", "get", "one", "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "object").read_bytes()
    trial.count(OBJECT, before)
