"""Results are written whole, or not at all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from softib import generate
from softib.errors import InputError
from softib.fabric.end_ports import end_ports
from softib.iba.pcap import ERF_SIZE, FILE_HEADER, RECORD_HEADER_SIZE, PcapFile
from softib.sim.packet import PacketOptions
from softib.sim.packet import run as run_packets
from softib.sim.packet.frames import write_capture
from softib.whole_files import write_file
from tests.sim.packet.fabrics import tree
from tests.sim.packet.traffic import mixture


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path):
    """A full disk in the middle of a page: the page of yesterday stays, and no half of a new one."""
    target = tmp_path / "page.html"
    target.write_text("yesterday's")

    def half(path: Path) -> None:
        path.write_text("half of to")
        raise OSError(28, os.strerror(28))

    with pytest.raises(InputError, match=r"page.html: cannot write: No space left on device"):
        write_file(target, half)
    assert target.read_text() == "yesterday's" and os.listdir(tmp_path) == ["page.html"]
    write_file(target, lambda path: path.write_text("today's"))
    assert target.read_text() == "today's" and os.listdir(tmp_path) == ["page.html"]


def test_what_is_no_regular_file_is_written_as_it_is():
    with pytest.raises(InputError, match="/dev/full: cannot write"):
        write_file("/dev/full", lambda path: path.write_text("x"))
    write_file("/dev/null", lambda path: path.write_text("x"))
    assert Path("/dev/null").is_char_device()


def test_a_table_on_a_full_disk_is_one_line():
    """polars has exceptions of its own."""
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match="/dev/full: cannot write"):
        write_file("/dev/full", polars.DataFrame({"a": [1] * 100_000}).write_parquet)


def full_disk(folder: Path) -> None:
    """A disk with room for 4 KiB: for what a test writes there first, and nothing more."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this user may not mount a small disk")


@pytest.mark.parametrize("name", ["f.ibnetdiscover", "f.net", "f.topo", "f.lft", "f.graphml", "topology.conf"])
def test_a_disk_that_fills_up_keeps_yesterdays_fabric(tmp_path, name):
    """Every writer of ``softib convert``: one line, and no half of a file that a reader would believe."""
    fabric = generate("fat-tree", radix=16)
    full_disk(tmp_path)
    try:
        target = tmp_path / name
        target.write_text("yesterday's")
        with pytest.raises(
            InputError,
            match=r"^[^\n]*: cannot write: No space left on device; free space on this file system or enlarge it$",
        ):
            fabric.save(target)
        assert target.read_text() == "yesterday's"
        assert not [f for f in os.listdir(tmp_path) if f != name and not f.endswith(".ibnl")]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_capture_of_virtual_time_on_a_full_disk_keeps_yesterdays(tmp_path):
    fabric = tree(4, 2)
    ports = [int(end_ports(fabric)[0])]
    out = run_packets(fabric, mixture(14, 200, 3), PacketOptions(watch_ports=(*ports, int(fabric.port_peer[ports[0]]))))
    full_disk(tmp_path)
    try:
        target = tmp_path / "run.pcapng"
        target.write_text("yesterday's")
        with pytest.raises(InputError, match=r"run.pcapng: cannot write: No space left on device"):
            write_capture(out.log, fabric, ports, target)
        assert target.read_text() == "yesterday's" and os.listdir(tmp_path) == [target.name]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_capture_of_a_running_fabric_ends_with_a_whole_packet_on_a_full_disk(tmp_path):
    """Readers follow it while it grows, so it cannot be replaced at its end; it keeps every packet for which there was room."""
    full_disk(tmp_path)
    try:
        file = PcapFile(tmp_path / "live.pcap")
        with pytest.raises(InputError, match=r"live.pcap: No space left on device"):
            for _ in range(3):
                file.write(np.zeros((7, 290), np.uint8), 1_000_000_000)
                file.flush()
        file.abandon()
        octets, size = (tmp_path / "live.pcap").read_bytes(), RECORD_HEADER_SIZE + ERF_SIZE + 290
        assert len(octets) == len(FILE_HEADER) + (4096 - len(FILE_HEADER)) // size * size
    finally:
        subprocess.run(["umount", tmp_path], check=True)
