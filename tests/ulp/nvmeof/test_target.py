"""softib target and softib nvme between nodes. The file of the target, read here, says what was written; counters of the ports what moved."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess

import pytest

from tests.ulp.nvmeof.nodes import DISK, HOST, OTHER, TARGET, Storage, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def storage():
    made = Storage()
    made.export("disk.img", "second.img")
    yield made
    made.close()


def disk_bytes(storage, offset, size, file="disk.img"):
    with open(storage.folder / file, "rb") as disk:
        disk.seek(offset)
        return disk.read(size)


def test_discovery_and_list(storage):
    entries = storage.json("discover")["entries"]
    assert [(e["address"], e["port"], e["nqn"]) for e in entries] == [
        (storage.target_address, 4420, "nqn.2026-11.softib:target")
    ]
    listed = storage.json("list")
    assert [(n["number"], n["bytes"], n["block"]) for n in listed["namespaces"]] == [(1, DISK, 4096), (2, DISK, 4096)]
    assert listed["paths"][0]["state"] == "optimized"


@pytest.mark.parametrize("size", [4096, 131072, 3 * 131072 + 8192])
def test_bytes_reach_the_file_and_come_back(storage, size):
    """In the capsule, by one RDMA READ, by several commands."""
    data = os.urandom(size)
    (storage.folder / "in.bin").write_bytes(data)
    before = storage.counters(HOST)["PortXmitData"]
    storage.nvme("write", "in.bin", "--offset", "1M")
    assert (storage.counters(HOST)["PortXmitData"] - before) * 4 >= size
    assert disk_bytes(storage, 1 << 20, size) == data
    storage.nvme("read", "--offset", "1M", "--size", str(size), "--to", "out.bin")
    assert (storage.folder / "out.bin").read_bytes() == data
    storage.nvme("compare", "in.bin", "--offset", "1M")
    storage.nvme("compare", "in.bin", "--offset", "2M", code=1)
    storage.nvme("flush")


def test_files_are_written_as_they_are(storage):
    """A compressed file is not unpacked, a stream is written until the namespace ends, and a file that does not fit changes
    nothing."""
    packed = gzip.compress(bytes(8192))
    packed += os.urandom(-len(packed) % 4096)
    (storage.folder / "in.img.gz").write_bytes(packed)
    storage.nvme("write", "in.img.gz", "--offset", "4M")
    assert disk_bytes(storage, 4 << 20, len(packed)) == packed
    storage.nvme("compare", "in.img.gz", "--offset", "4M")
    os.truncate(storage.folder / "in.img.gz", DISK)
    assert "beyond the end" in storage.nvme("write", "in.img.gz", "--offset", "4M", code=2).stderr
    assert disk_bytes(storage, 4 << 20, len(packed)) == packed
    words = storage.words(HOST, "nvme", "write", storage.target_address, "-", "--offset", str(DISK - (20 << 20)))
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(words, stdin=endless.stdout, env=storage.env, capture_output=True, text=True, timeout=240)
        endless.kill()
    assert done.returncode == 2 and "beyond the end" in done.stderr, done.stderr
    assert disk_bytes(storage, DISK - (20 << 20), 16 << 20) == b"y\n" * (8 << 20)


def test_zeroes(storage):
    for options in ((), ("--deallocate",)):
        (storage.folder / "in.bin").write_bytes(os.urandom(1 << 20))
        storage.nvme("write", "in.bin", "--offset", "8M", "--namespace", "2")
        storage.nvme("zero", "--offset", "8200k", "--size", "64k", "--namespace", "2", *options)
        assert disk_bytes(storage, 8200 << 10, 64 << 10, "second.img") == bytes(64 << 10)
        expected = (storage.folder / "in.bin").read_bytes()[: 8 << 10]
        assert disk_bytes(storage, 8 << 20, 8 << 10, "second.img") == expected


def test_bench_verifies_what_it_wrote(storage):
    result = storage.json(
        "bench", "--seconds", "1", "--size", "16k", "--mix", "mixed", "--queues", "3", "--overwrite", "--namespace", "2"
    )
    assert result["verified"]
    assert result["queues"] == 3
    assert 0.6 < result["reads"] / result["commands"] < 0.8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("read", "--offset", "1", "--size", "4k"), "offset 1: use a multiple of 4,096"),
        (("read", "--size", "5000"), "size 5,000: use a multiple of 4,096"),
        (("read", "--size", "0"), "size 0: use at least 4,096 bytes"),
        (("list", "--nqn", ""), "no subsystem ''"),
        (("read", "--offset", "64M", "--size", "4k"), "beyond the end"),
        (("list", "--namespace", "9"), "namespace 9 does not exist"),
        (("list", "--nqn", "nqn.x:y"), "no subsystem 'nqn.x:y'"),
        (("bench", "--size", "1M"), "use a multiple of 4,096 up to 131,072"),
        (("bench", "--mix", "write"), "--overwrite"),
        (("write", "missing.bin"), "missing.bin"),
    ],
)
def test_wrong_requests(storage, words, message):
    assert message in storage.nvme(*words, code=2).stderr


def test_a_refused_read_keeps_the_previous_file(storage):
    kept = storage.folder / "kept.bin"
    kept.write_text("yesterday's")
    for options in (("--offset", "3", "--size", "4k"), ("--offset", "64M", "--size", "4k"), ("--namespace", "9")):
        storage.nvme("read", *options, "--to", "kept.bin", code=2)
        assert kept.read_text() == "yesterday's"
    storage.nvme("read", "--size", "4k", "--to", "kept.bin")
    assert kept.read_bytes() == disk_bytes(storage, 0, 4096)
    printed = subprocess.run(
        storage.words(HOST, "nvme", "read", storage.target_address, "--size", "4k"),
        env=storage.env,
        capture_output=True,
        timeout=120,
    )
    assert printed.stdout == kept.read_bytes()


def test_addresses_without_a_target(storage):
    assert "no target listens there" in storage.nvme("list", code=2, address=storage.address(OTHER)).stderr
    assert "not an IPv4 address" in storage.nvme("list", code=2, address="nosuch").stderr
    assert "no port of the fabric" in storage.nvme("list", code=2, address="10.9.9.9").stderr


def test_a_host_that_dies_in_mid_write_harms_no_one(storage):
    """Blocks hold the old or the new pattern, whole; the target goes on with another host meanwhile."""
    storage.nvme("bench", "--seconds", "0.1", "--size", "64k", "--overwrite")
    writer = subprocess.Popen(
        storage.words(
            OTHER,
            "nvme",
            "bench",
            storage.target_address,
            "--size",
            "64k",
            "--mix",
            "write",
            "--overwrite",
            "--seconds",
            "60",
        ),
        env=storage.env,
        cwd=storage.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        storage.until_busy(OTHER)
        os.killpg(writer.pid, signal.SIGKILL)
    finally:
        writer.kill()
        writer.wait()
    storage.nvme("list")
    step = 0x9E3779B97F4A7C15
    for unit in range(0, DISK >> 16, 7):
        words = memoryview(disk_bytes(storage, unit << 16, 1 << 16)).cast("Q")
        assert (words[-1] - words[0]) % 2**64 == step * (len(words) - 1) % 2**64, unit
    until(lambda: storage.status()["verbs"]["programs"] == 1)


def test_a_file_that_vanishes_and_comes_back(storage):
    path, away = storage.folder / "second.img", storage.folder / "away.img"
    path.rename(away)
    try:
        until(lambda: "namespace not ready" in _attempt(storage, "2"))
        assert "0x" not in _attempt(storage, "1")
    finally:
        away.rename(path)
    until(lambda: _attempt(storage, "2") == "")


def _attempt(storage, namespace):
    words = storage.words(
        HOST, "nvme", "read", storage.target_address, "--size", "4k", "--to", "x.bin", "--namespace", namespace
    )
    done = subprocess.run(words, env=storage.env, cwd=storage.folder, capture_output=True, text=True, timeout=120)
    return done.stderr if done.returncode else ""


def test_a_full_file_system(storage, tmp_path):
    """A sparse file on a file system of 8 MB: what does not fit is refused, what was written stays."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", mounted]).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        (mounted / "full.img").touch()
        os.truncate(mounted / "full.img", DISK)
        program = storage.export(str(mounted / "full.img"), options=("--port", "4421"))
        where = f"{storage.target_address}:4421"
        (storage.folder / "in.bin").write_bytes(os.urandom(4 << 20))
        storage.nvme("write", "in.bin", address=where)
        (storage.folder / "large.bin").write_bytes(os.urandom(16 << 20))
        message = storage.nvme("write", "large.bin", "--offset", "4M", address=where, code=2).stderr
        assert "capacity exceeded" in message
        storage.nvme("compare", "in.bin", address=where)
        storage.end(program)
    finally:
        subprocess.run(["umount", "-l", mounted], check=True)


def test_a_read_only_file(storage):
    if not os.geteuid():
        pytest.skip("root may write every file")
    path = storage.folder / "ro.img"
    path.write_bytes(bytes(1 << 20))
    path.chmod(0o400)
    program = storage.export("ro.img", options=("--port", "4422"))
    (storage.folder / "in.bin").write_bytes(bytes(4096))
    message = storage.nvme("write", "in.bin", address=f"{storage.target_address}:4422", code=2).stderr
    assert "write protected" in message
    storage.end(program)


def test_a_port_in_use(storage):
    (storage.folder / "kept.pcap").write_text("yesterday's")
    done = subprocess.run(
        storage.words(TARGET, "target", "disk.img", "--pcap", "kept.pcap"),
        env=storage.env,
        cwd=storage.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "port 4420 is in use" in done.stderr
    assert (storage.folder / "kept.pcap").read_text() == "yesterday's"


def test_a_target_that_ends_is_named(storage):
    program = storage.export("third.img", options=("--port", "4423"))
    reader = subprocess.Popen(
        storage.words(OTHER, "nvme", "bench", f"{storage.target_address}:4423", "--seconds", "60"),
        env=storage.env,
        cwd=storage.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    storage.until_busy(OTHER)
    storage.end(program, signal.SIGKILL)
    said = reader.communicate(timeout=120)[1]
    assert reader.returncode == 2
    assert "connection lost" in said
    assert len(said.strip().splitlines()) == 1
