"""Fetching public files, from repositories on this machine."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.conftest import find_shared_data
from tests.real_data import fetch


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """Address with the two parts of a name, and the commit."""
    work = tmp_path / "there" / "owner+name"
    (work / "a b").mkdir(parents=True)
    (work / "a b" / "one.txt").write_bytes(b"1\r\n")
    (work / "a b" / "two.txt").write_bytes(b"2\n")
    (work / "list").write_text("".join(f"line {i}\n" for i in range(1, 10)))
    with zipfile.ZipFile(work / "some.zip", "w") as archive:
        archive.writestr("inside.txt", "packed")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "core.autocrlf=false", "-C", str(work)]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    return f"file://{tmp_path}/there/{{owner}}+{{name}}", commit


def test_a_folder_is_whole_or_absent(tmp_path: Path, repository: tuple[str, str]) -> None:
    url, commit = repository
    folder = tmp_path / "data" / "few"
    folder.mkdir(parents=True)
    (folder / "half").write_text("of an earlier run")
    source = {"repository": "owner/name", "commit": commit, "below": "a b/", "files": ["*.txt"]}
    assert not fetch.complete(folder, source)
    assert fetch.fetch(folder, source, url) == 2
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"one.txt": b"1\r\n", "two.txt": b"2\n"}
    assert fetch.complete(folder, source) and not fetch.complete(folder, {**source, "commit": "0" * 40})
    with pytest.raises(fetch.NotFetched, match="no file is called 'three'"):
        fetch.fetch(folder, {**source, "files": ["three"]}, url)
    assert len(list(folder.iterdir())) == 2 and sorted(p.name for p in folder.parent.iterdir()) == [".fetched", "few"]


def test_parts_of_files_and_archives(tmp_path: Path, repository: tuple[str, str]) -> None:
    url, commit = repository
    source = {"repository": "owner/name", "commit": commit}
    fetch.fetch(tmp_path / "part", {**source, "part_of": "list", "lines": [2, 3], "files": ["some"]}, url)
    assert (tmp_path / "part" / "some").read_text() == "line 2\nline 3\n"
    fetch.fetch(tmp_path / "packed", {**source, "archive": "some.zip", "files": ["inside.*"]}, url)
    assert (tmp_path / "packed" / "inside.txt").read_text() == "packed"
    fetch.fetch(tmp_path / "flat", {**source, "files": ["a b/one.txt"]}, url)
    assert (tmp_path / "flat" / "a b__one.txt").is_file()


def test_what_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    source = {"repository": "owner/name", "commit": "0" * 40, "files": ["*"]}
    with pytest.raises(fetch.NotFetched) as refused:
        fetch.fetch(tmp_path / "none", source, "file:///nonexistent/{owner}/{name}")
    assert "\n" not in str(refused.value) and not (tmp_path / "none").exists()


def test_what_is_incomplete_is_not_found_by_tests(tmp_path: Path, repository: tuple[str, str], monkeypatch) -> None:
    url, commit = repository
    few = {"few": {"repository": "owner/name", "commit": commit, "licence": "none", "files": ["list"]}}
    other = {"other": {"repository": "owner/absent", "commit": commit, "licence": "none", "files": ["*"]}}
    arguments = ["--into", str(tmp_path / "data"), "--from", url]
    monkeypatch.setattr(fetch, "sources", lambda: few)
    assert fetch.main(arguments) == 0 and (tmp_path / "data" / "COUNTS.tsv").is_file()
    monkeypatch.setattr(fetch, "sources", lambda: few | other)
    assert fetch.main(arguments) == 1 and not (tmp_path / "data" / "COUNTS.tsv").exists()
    assert (tmp_path / "data" / "few" / "list").is_file()


def test_every_folder_of_the_real_files_has_its_source() -> None:
    data = find_shared_data()
    if data is None:
        pytest.skip("the real files are absent (make real-data fetches them)")
    assert {p.name for p in data.iterdir() if p.is_dir() and p.name != ".fetched"} == set(fetch.sources())
