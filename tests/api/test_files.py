"""Results are written whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from softib.api.files import check_writable, write_file
from softib.errors import InputError


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


def test_checking_leaves_nothing(tmp_path):
    check_writable(tmp_path / "new")
    assert not os.listdir(tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        check_writable(tmp_path / "no" / "where")
