"""Fetches the public files that tests read, each from its repository at one commit.

    python -m tests.real_data.fetch [--into FOLDER] [--from URL]

URL is the address of a repository, with ``{owner}`` and ``{name}`` for its two parts. A folder that is
complete is left as it is; one that was fetched in part is fetched again.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parents[1] / "real-data"
URL = "https://github.com/{owner}/{name}"
STAMPS = ".fetched"
PATIENCE_S = 600


class NotFetched(Exception):
    """One repository, or a file of it, could not be had; the text says why in one line."""


def sources() -> dict[str, dict[str, Any]]:
    """The table of sources.toml."""
    return tomllib.loads((HERE / "sources.toml").read_text())


class Repository:
    """A bare copy of one commit; its files come when they are read."""

    def __init__(self, folder: Path, url: str, commit: str):
        self.folder, self.commit = folder, commit
        self._git("init", "--quiet", "--bare")
        self._git("config", "remote.origin.url", url)
        self._git("config", "remote.origin.promisor", "true")
        self._git("fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", commit)

    def names(self) -> list[str]:
        """Names of all its files."""
        return self._git("ls-tree", "-r", "-z", "--name-only", self.commit).decode().rstrip("\0").split("\0")

    def read(self, name: str) -> bytes:
        """The octets of one file."""
        return self._git("cat-file", "blob", f"{self.commit}:{name}")

    def _git(self, *arguments: str) -> bytes:
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, timeout=PATIENCE_S
            )
        except FileNotFoundError:
            raise NotFetched("git is not installed") from None
        except subprocess.TimeoutExpired:
            raise NotFetched(f"git {arguments[0]} takes longer than {PATIENCE_S} s") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise NotFetched(lines[-1] if lines else f"git {arguments[0]} ended with {done.returncode}")
        return done.stdout


def files_of(source: dict[str, Any], repository: Repository) -> dict[str, bytes]:
    """Name in the folder → octets. Raises :class:`NotFetched` where a pattern fits no file."""
    if "archive" in source:
        archive = zipfile.ZipFile(io.BytesIO(repository.read(source["archive"])))
        return {n: archive.read(n) for p in source["files"] for n in fitting(p, archive.namelist())}
    if "lines" in source:
        first, last = source["lines"]
        part = repository.read(source["part_of"]).splitlines(keepends=True)[first - 1 : last]
        return {source["files"][0]: b"".join(part)}
    below = source.get("below", "")
    names = [n.removeprefix(below) for n in repository.names() if n.startswith(below)]
    chosen = [n for p in source["files"] for n in fitting(p, names)]
    return {n.replace("/", "__"): repository.read(below + n) for n in chosen}


def fitting(pattern: str, names: list[str]) -> list[str]:
    """The names that ``pattern`` fits, in which ``*`` stands for no slash."""
    depth = pattern.count("/")
    fit = [n for n in names if n == pattern or (n.count("/") == depth and fnmatchcase(n, pattern))]
    if not fit:
        raise NotFetched(f"no file is called {pattern!r}")
    return fit


def fetch(folder: Path, source: dict[str, Any], url: str) -> int:
    """Fill ``folder`` whole or not at all; how many files it has."""
    owner, name = source["repository"].split("/")
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as scratch:
        bare, made = Path(scratch, "git"), Path(scratch, "files")
        bare.mkdir()
        made.mkdir()
        files = files_of(source, Repository(bare, url.format(owner=owner, name=name), source["commit"]))
        for file, octets in files.items():
            (made / file).write_bytes(octets)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    stamp = stamp_of(folder)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(source["commit"] + "\n")
    return len(files)


def stamp_of(folder: Path) -> Path:
    """The file that says of which commit the folder is."""
    return folder.parent / STAMPS / folder.name


def complete(folder: Path, source: dict[str, Any]) -> bool:
    """Was this commit fetched whole?"""
    stamp = stamp_of(folder)
    return folder.is_dir() and stamp.is_file() and stamp.read_text().strip() == source["commit"]


def main(arguments: list[str] | None = None) -> int:
    """Fetch what is missing; 1 where a folder could not be had."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=DEFAULT, help="folder (default: real-data in this checkout)")
    parser.add_argument("--from", dest="url", default=URL, help="address of a repository (default: %(default)s)")
    given = parser.parse_args(arguments)
    given.into.mkdir(parents=True, exist_ok=True)
    missing = 0
    for folder, source in sources().items():
        if complete(given.into / folder, source):
            print(f"{folder}: complete", flush=True)
            continue
        try:
            count = fetch(given.into / folder, source, given.url)
        except (NotFetched, OSError, zipfile.BadZipFile) as error:
            missing += 1
            print(f"{folder}: not fetched from {source['repository']}: {error}", file=sys.stderr, flush=True)
            continue
        print(f"{folder}: {count} files of {source['repository']}, licence {source['licence']}", flush=True)
    table = given.into / "COUNTS.tsv"  # by which tests find the folder
    if missing:
        table.unlink(missing_ok=True)
        print(f"{missing} of {len(sources())} folders are missing; tests skip until all are here", file=sys.stderr)
        return 1
    shutil.copyfile(HERE / "counts.tsv", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
