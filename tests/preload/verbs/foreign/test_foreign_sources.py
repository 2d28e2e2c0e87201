"""Programs built from their sources, below ``$SOFTIB_SOURCES`` (``make programs DIR=...``), one folder each."""

from __future__ import annotations

import collections
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.preload.verbs.applications import A, B, stop
from tests.preload.verbs.foreign.pyverbs_suite import RUNNER
from tests.preload.verbs.foreign.trial import NODES

pytestmark = pytest.mark.slow


VALUE = 1024
"""Bytes of a value in Valkey's rdma-test.c."""


def built(folder: str, program: str, command: str) -> Path:
    """``program`` below the sources of ``folder``, built unless it is there; skips without sources."""
    at = Path(os.environ.get("SOFTIB_SOURCES", "/nonexistent")) / folder
    if not at.is_dir():
        pytest.skip(f"no sources of {folder}: set SOFTIB_SOURCES")
    if not (at / program).exists():
        done = subprocess.run(["sh", "-ec", command], cwd=at, capture_output=True, text=True, timeout=1500)
        assert (at / program).exists(), (done.stdout + done.stderr)[-2000:]
    return at


def test_valkey_answers_over_rdma(trial):
    """Its own client of this transport: four threads set thousands of keys and get the same values again."""
    at = built(
        "valkey",
        "src/valkey-rdma.so",
        "make -s -j2 MALLOC=libc && make -s -C src MALLOC=libc BUILD_RDMA=module valkey-rdma.so",
    )
    built("valkey", "tests/rdma/rdma-test", "make -s -C tests/rdma")
    port, address, before = str(next(trial.apps.ports)), trial.apps.address(A), trial.sent()
    # The node's address is not 127.0.0.1, so protected mode would refuse it.
    server = trial.apps.begin(
        A,
        str(at / "src/valkey-server"),
        "--port",
        "0",
        "--save",
        "",
        "--protected-mode",
        "no",
        "--dir",
        str(trial.folder),
        "--loadmodule",
        str(at / "src/valkey-rdma.so"),
        f"port={port}",
        f"bind={address}",
    )
    try:
        assert any("Ready to accept connections rdma" in line for line in server.stdout)
        client = trial.apps.begin(B, str(at / "tests/rdma/rdma-test"), "-h", address, "-p", port, "-t", "4")
        output = client.communicate(timeout=150)[0]
    finally:
        stop(server)
    assert client.returncode == 0 and output.endswith("Valkey Over RDMA test [OK]\n"), output
    keys = sum(map(int, re.findall(r"GET (\d+) KVs \[OK\]", output)))
    trial.count(keys * VALUE, before)


@pytest.mark.parametrize("test", ["write", "read"])
def test_perftest_of_today_validates_its_data(trial, test):
    """``--data_validation``, which Debian's version lacks, and which it has for these two only."""
    at = built("perftest", "ib_write_bw", "./autogen.sh && ./configure && make -s -j2")
    port, before = next(trial.apps.ports), trial.sent()
    words = [
        str(at / f"ib_{test}_bw"),
        "--data_validation",
        "-F",
        "-n",
        "500",
        "-s",
        "65536",
        "-t",
        "64",
        "-p",
        str(port),
    ]
    server, client = trial.apps.pair(words, [*words, "127.0.0.1"], tcp=port)
    validated = re.search(r"^VALIDATION: PASSED - \d+ chunks, (\d+) bytes$", server + client, re.M)
    assert validated, server + client
    trial.count(int(validated[1]), before)


@pytest.fixture(scope="module")
def pyverbs():
    """The folder of pyverbs 59's sources, the words of a Python that finds its modules, and the variable of its libraries. Cython 3.1 and later
    refuse the sources."""
    at = built(
        "pyverbs",
        "rdma-core/build/complete",
        f"{sys.executable} -m venv cython && cython/bin/python -m pip install -q 'cython<3.1' && "
        "cmake -G Ninja -S rdma-core -B rdma-core/build -DIN_PLACE=1 -DNO_MAN_PAGES=1 "
        "-DPYTHON_EXECUTABLE=$PWD/cython/bin/python -DCYTHON_EXECUTABLE=$PWD/cython/bin/cython && cd rdma-core/build && "
        "ninja -j2 $(ninja -t targets all | grep -o '^python/pyverbs/.*[.]so') && touch complete",
    )
    build = at / "rdma-core" / "build"
    return at, ["env", f"PYTHONPATH={build / 'python'}", sys.executable], {"LD_LIBRARY_PATH": str(build / "lib")}


def test_pyverbs_59_writes_and_reads(trial, pyverbs):
    _, python, env = pyverbs
    trial.compare(
        *([*python, str(NODES / "pyverbs_rc.py"), role, str(trial.folder)] for role in ("server", "client")), **env
    )


def test_the_suite_of_pyverbs_59(trial, pyverbs):
    """Two tests of mlx5 ask ``devlink`` for the adapter before they would skip."""
    at, python, env = pyverbs
    shutil.copytree(at / "rdma-core" / "tests", trial.folder / "tests")
    done = subprocess.run(
        trial.apps.on(A, *python, str(RUNNER)),
        env={**trial.apps.env, **env},
        cwd=trial.folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["tests.')]
    assert rows, done.stderr
    how = collections.Counter(row[1] for row in rows)
    failed = [row for row in rows if row[1] == "failed" and not ("roce_bth_match" in row[0] and "devlink" in row[2])]
    assert not failed and how["passed"] >= 158 and len(rows) == 327, (how, failed)
