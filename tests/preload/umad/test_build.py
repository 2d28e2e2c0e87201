"""The preload libraries are compiled when what they are made of has changed, whatever the files' times say."""

from __future__ import annotations

import os

import pytest

from softib.preload import build


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A library of one line, elsewhere."""
    if build.compiler() is None:
        pytest.skip("no C compiler")
    here = tmp_path / "preload"
    (here / "umad").mkdir(parents=True)
    for name, text in (
        ("umad/rmpp.c", '#include "umad.h"\n'),
        ("umad/umad.h", '#include "../shared_fabric.h"\n'),
        ("shared_fabric.h", "\n"),
    ):
        (here / name).write_text(text)
    monkeypatch.setattr(build, "HERE", here)
    monkeypatch.setattr(build, "SOURCES", here / "umad")
    return here


def test_what_is_current_is_not_compiled_again(copy, tmp_path):
    to = tmp_path / "libsoftib-umad.so"
    build.compile_library(to)
    os.utime(to, (0, 0))  # older than its sources, as after a checkout
    build.compile_library(to)
    assert to.stat().st_mtime == 0


@pytest.mark.parametrize("name", ["umad/rmpp.c", "umad/umad.h", "shared_fabric.h"])
def test_another_content_is_compiled(copy, tmp_path, name):
    to = tmp_path / "libsoftib-umad.so"
    build.compile_library(to)
    with (copy / name).open("a") as file:
        file.write("/* another */\n")
    os.utime(copy / name, (0, 0))
    os.utime(to, (1, 1))
    build.compile_library(to)
    assert to.stat().st_mtime > 1


def test_other_flags_are_another_library(copy, tmp_path):
    to = tmp_path / "libsoftib-umad.so"
    build.compile_library(to)
    os.utime(to, (1, 1))
    build.compile_library(to, ("-DANOTHER",))
    assert to.stat().st_mtime > 1
