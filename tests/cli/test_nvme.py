"""``softib nvme`` without a target: what it counts as the time of a transfer."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from softib.cli.run import nvme


class Disk:
    """On its clock a transfer takes 2 s, connecting and disconnecting take 100 s each."""

    size = 8192

    def __init__(self):
        self.now = 0.0

    def __enter__(self):
        self.now += 100
        return self

    def __exit__(self, *error):
        self.now += 100

    def _transfer(self, *arguments):
        self.now += 2
        return 4096

    read_file = write_file = zero = flush = _transfer

    def compare_file(self, *arguments):
        return SimpleNamespace(equal=True, size=self._transfer())


@pytest.mark.parametrize("words", ["read --to out", "write in", "compare in", "zero", "flush"])
def test_the_time_of_a_transfer_is_without_the_connection(monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes(bytes(4096))
    disk = Disk()
    monkeypatch.setattr(nvme, "_connect", lambda *arguments, **more: disk)
    monkeypatch.setattr(nvme, "time", SimpleNamespace(monotonic=lambda: disk.now))
    verb, *options = words.split()
    ran = CliRunner().invoke(nvme.command, [verb, "127.0.0.1", *options, "--json"])
    assert json.loads(ran.stdout)["seconds"] == 2.0, ran.output
