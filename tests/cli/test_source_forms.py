"""SOURCE from stdin, from a pipe and packed by gzip: the same fabric, and errors that name it."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_broken_gzip_is_one_line(tmp_path):
    path = packed(tmp_path / "cut.gz", NET.encode() * 100)
    path.write_bytes(path.read_bytes()[:60])
    assert f"{path}: broken gzip" in one_line(softib("check", path))


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
