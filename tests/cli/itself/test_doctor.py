"""``softib doctor`` tells what is there and what is not: a planted lack is found, and its mend named."""

from __future__ import annotations

import os
import shutil

import pytest

from softib.live.launch import doctor
from softib.preload import build
from tests.cli.run import softib


def states(ran) -> dict[str, str]:
    return {one["name"]: one["state"] for one in ran.json()["checks"]}


def test_every_lack_has_a_mend():
    for one in doctor.checks():
        assert one.state in ("ok", "absent", "missing") and one.what
        assert bool(one.mend) == (one.state != "ok"), one


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler")
def test_what_is_built_is_ok():
    found = states(softib("doctor", "--json"))
    assert found["umad library"] == "ok" and found["runtime directory"] == "ok"


def test_stock_programs_that_are_not_there_are_absent(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda program, path=None: None)
    found = {one.name: one for one in doctor.checks()}
    assert {found[name].state for name in doctor.STOCK} == {"absent"}
    assert "apt install perftest" in found["perftest"].mend


def test_a_library_that_is_not_built_or_does_not_load_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "libsoftib-umad.so")
    assert {o.name: o.state for o in doctor.checks()}["umad library"] == "missing"
    (tmp_path / "libsoftib-umad.so").write_bytes(b"\x7fELF of nothing")
    broken = {o.name: o for o in doctor.checks()}["libsoftib-umad.so"]
    assert broken.state == "missing" and "does not load" in broken.what


def test_a_runtime_directory_open_to_others_is_missing_and_the_exit_code_says_so(monkeypatch, tmp_path):
    folder = tmp_path / "softib"
    folder.mkdir(mode=0o755)
    os.chmod(folder, 0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    ran = softib("doctor", "--json")
    assert ran.code == 1 and states(ran)["runtime directory"] == "missing"
