"""SOURCE from stdin, from a FIFO and compressed: the same fabric, errors that name it, and a
library that prints nothing."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from softib import input_files as files
from softib.errors import SoftibWarning
from softib.source import load
from tests.cli.run import one_line, softib

YAML = "name: t\ntopology: {kind: fat-tree, radix: 4, levels: 2}\nfaults: [{kind: remove-cable, cable: 'leaf-1[3]'}]\n"
NET = 'Switch 4 "S1"\n[1] "H1"[1]\n[2] "H2"[1]\n\nHca 1 "H1"\n[1] "S1"[1]\n\nHca 1 "H2"\n[1] "S1"[2]\n'


def through_stdin(monkeypatch, octets: bytes, *args: object):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(octets)))
    return softib(*args)


@pytest.mark.parametrize("text", [YAML, NET], ids=["fabric.yaml", "netlist"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_stdin_and_gzip_are_the_same_fabric(monkeypatch, tmp_path, text, packed):
    file = tmp_path / ("f.yaml" if text == YAML else "f.net")
    file.write_text(text)
    octets = gzip.compress(text.encode()) if packed else text.encode()
    ran = through_stdin(monkeypatch, octets, "diff", "-", file)
    assert (ran.code, ran.out) == (0, "no difference\n"), ran.err
    other = tmp_path / f"{file.name}.gz"
    other.write_bytes(gzip.compress(text.encode()))
    ran = softib("diff", other, file)
    assert (ran.code, ran.out) == (0, "no difference\n"), ran.err


def test_a_pipe_is_read_as_a_file(tmp_path):
    file = tmp_path / "f.net"
    file.write_text(NET)
    command = f"{sys.executable} -m softib diff <(cat {file}) {file}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "no difference\n"), ran.stderr


def test_problems_name_the_source_and_not_the_copy(monkeypatch, tmp_path):
    bad = NET.replace('[2] "H2"[1]', '[9] "H2"[1]').encode()
    for ran, name in (
        (through_stdin(monkeypatch, bad, "check", "-", "--json"), "stdin"),
        (softib("check", packed(tmp_path / "x.net.gz", bad), "--json"), str(tmp_path / "x.net.gz")),
    ):
        assert {p["file"] for p in ran.json()["problems"]} == {name}
        assert "softib-" not in ran.out
    line = one_line(through_stdin(monkeypatch, b"topology: {kind: fat-tre}\n", "check", "-"))
    assert "stdin:1: " in line and "fat-tree" in line and "/tmp" not in line
    assert "empty" in one_line(through_stdin(monkeypatch, b"", "check", "-"))


def packed(path: Path, octets: bytes) -> Path:
    path.write_bytes(gzip.compress(octets))
    return path


def test_a_cut_gzip_file_is_named(tmp_path):
    """What stands before the cut is read and the cut is a problem; of a fabric.yaml nothing is
    taken."""
    path = packed(tmp_path / "cut.net.gz", NET.encode() + b"# end\n" * 99)
    path.write_bytes(path.read_bytes()[:-9])
    (problem,) = softib("check", path, "--json").json()["problems"]
    assert problem["file"] == str(path) and "gzip" in problem["reason"] and "cut" in problem["reason"]
    path = packed(tmp_path / "cut.yaml.gz", YAML.encode())
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}: the gzip data cannot be unpacked" in one_line(softib("check", path))
    path.write_bytes(path.read_bytes()[:10])
    assert f"{path}: the gzip data cannot be unpacked" in one_line(softib("check", path))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_fifo_is_read_once_by_detection_and_reader(tmp_path, pack):
    """A FIFO in the file system, its writer a thread that closes it: a second opening would wait
    for ever."""
    fifo = tmp_path / "fabric"
    os.mkfifo(fifo)
    for text, nodes in ((NET, 3), (NET.partition("Hca")[0], 1)):  # what it held is not kept for the next reading
        writer = threading.Thread(target=fifo.write_bytes, args=(pack(text.encode()),), daemon=True)
        writer.start()
        result = load(str(fifo))
        writer.join(10)
        assert result.fabric.sizes.nodes == nodes and result.fabric.source.path == str(fifo)
    assert load(str(packed(tmp_path / "f.net.gz", NET.encode()))).fabric.name == "f"


def test_a_plan_comes_through_a_fifo_too(tmp_path):
    (tmp_path / "f.net").write_text(NET)
    command = f"{sys.executable} -m softib check {tmp_path}/f.net --plan <(cat {tmp_path}/f.net) --json"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    assert json.loads(ran.stdout)["plan"]["counts"]["matched"] == 2, ran.stderr


def test_a_stream_is_given_back_when_it_was_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(NET.encode())))
    assert load("-").fabric.source.path == "stdin"
    assert files.content("-").data == b""


def test_the_library_reads_without_click_and_prints_nothing(tmp_path):
    (tmp_path / "f.net").write_text(NET)
    program = (
        "import sys, softib.source, softib.analysis.pipeline\n"
        f"r = softib.source.load({str(tmp_path / 'f.net')!r})\n"
        "softib.analysis.pipeline.build('f', r)\n"
        "print(sorted({'click', 'rich'} & set(sys.modules)), r.fabric.sizes.nodes)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (ran.stdout, ran.stderr) == ("[] 3\n", "")


DB_CSV = """START_NODES
NodeDesc,NumPorts,NodeType,SystemImageGUID,NodeGUID,PortGUID,DeviceID,VendorID,revision
"leaf",4,2,0x1,0x1,0x1,54000,713,0
END_NODES
START_PM_PORT_SAMPLES_CONTROL
NodeGUID
0x1
END_PM_PORT_SAMPLES_CONTROL
"""
NOT_READ = "sections that softib does not read: PM_PORT_SAMPLES_CONTROL (1 row)"


def test_notices_go_to_the_caller(tmp_path):
    """To a callback, else as a warning of Python; with the command line to stderr and, of report
    and check, into JSON."""
    path = tmp_path / "ibdiagnet2.db_csv"
    path.write_text(DB_CSV)
    notices: list[str] = []
    assert load(str(path), notice=notices.append).notes == [NOT_READ]
    assert notices == [f"{path}: {NOT_READ}"]
    with pytest.warns(SoftibWarning, match="does not read: PM_PORT_SAMPLES"):
        load(str(path))
    for verb in ("check", "report"):
        ran = softib(verb, path, "--json")
        assert ran.json()["source_notes"] == [NOT_READ] and f"softib: {path}: {NOT_READ}\n" in ran.err
    page = tmp_path / "report.html"
    softib("report", path, "--html", page)
    assert NOT_READ in page.read_text()


def test_files_that_a_packed_fabric_file_names_are_beside_it(monkeypatch, tmp_path):
    (tmp_path / "small.net").write_text(NET)
    source = packed(tmp_path / "f.yaml.gz", b"import: small.net\n")
    assert softib("check", source, "--severity", "error", "--json").json()["fabric"]["switches"] == 1
    monkeypatch.chdir(tmp_path)
    ran = through_stdin(monkeypatch, b"import: small.net\n", "check", "-", "--severity", "error", "--json")
    assert ran.json()["fabric"]["switches"] == 1


def test_nothing_is_left_behind(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    through_stdin(monkeypatch, NET.encode(), "check", "-")
    through_stdin(monkeypatch, b"nonsense", "check", "-")
    assert os.listdir(tmp_path) == []


def test_check_says_what_is_read_and_not_judged(tmp_path):
    """A chip's temperature of a file leads to no finding, however bad: the user is told so once."""
    path = tmp_path / "hot.db_csv"
    path.write_text(DB_CSV + "START_TEMP_SENSING\nNodeGUID,CurrentTemperature\n0x1,99\nEND_TEMP_SENSING\n")
    ran = softib("check", path)
    assert ran.err.count("not checked") == 1
    assert f"softib: {path}: read, but not checked: temperatures of chips (no file states their limits)\n" in ran.err
    path.write_text(DB_CSV)
    assert "not checked" not in softib("check", path).err
