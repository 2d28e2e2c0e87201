"""M_Keys from one manager to the next, ours and stock OpenSM: each reads the files ``guid2mkey`` and ``neighbors`` that the other wrote."""

from __future__ import annotations

import os
import subprocess

import pytest

from softib.iba.smp import PortInfo
from tests.live.serving import wait_for
from tests.live.umad_sm.lab import fabric_of, is_up, own

A, B = 0xAAAA111122223333, 0xBBBB444455556666
LEVELS = [pytest.param(3), *(pytest.param(level, marks=pytest.mark.slow) for level in (0, 1, 2))]


def keys(s) -> set[int]:
    f = fabric_of(s)
    hosts = f.linked & ~f.is_switch[f.port_node]
    rows = [*hosts.nonzero()[0].tolist(), *f.node_base[f.switch_node].tolist()]
    return set(PortInfo.mkey.get(f.port_info[rows]).tolist())


def violations(s) -> int:
    return int(PortInfo.mkey_violations.get(fabric_of(s).port_info).sum())


def options(s, name: str, key: int, level: int) -> str:
    """A file of options. An answer that is late on a busy machine must not look like a key that is wrong: the next one would be tried."""
    (s.folder / name).write_text(
        f"m_key {key:#x}\nm_key_protection_level {level}\nm_key_lease_period 0\ntransaction_timeout 3000\n"
    )
    return name


def opensm(s, stock, conf: str, key: int) -> None:
    """Until all ports hold ``key`` and the subnet is up; it ends well, so that its files are written."""
    env = {**s.env, "OSM_CACHE_DIR": str(s.folder), "OSM_TMP_DIR": str(s.folder)}
    words = [stock("opensm"), "-F", conf, "-f", "osm.log", "-o"]
    done = subprocess.run(
        s.words("run", "--", *words), env=env, cwd=s.folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-1500:]
    wait_for(lambda: keys(s) == {key} and is_up(fabric_of(s)), 10)


def ours(s, conf: str) -> str:
    return own(s, "sm", "run", "--once", "--priority", "3", "--sm-config", conf, "--guid2lid", "guid2lid")


@pytest.mark.parametrize("level", LEVELS)
def test_ours_takes_over_by_what_opensm_wrote(softib, stock, level):
    stock("opensm")
    softib("up", "net.yaml", "--sm", "external", "--detach")
    opensm(softib, stock, options(softib, "a.conf", A, level), A)
    lids, before = fabric_of(softib).lid.copy(), violations(softib)
    assert len((softib.folder / "guid2mkey").read_text().split()) == 2 * 36
    said = ours(softib, options(softib, "b.conf", B, level))
    assert keys(softib) == {B} and is_up(fabric_of(softib)) and "M_Key" not in said
    assert (fabric_of(softib).lid == lids).all() and violations(softib) == before


@pytest.mark.parametrize("level", LEVELS)
def test_opensm_takes_over_by_what_ours_wrote(softib, stock, level):
    stock("opensm")
    softib("up", "net.yaml", "--sm", "external", "--detach")
    ours(softib, options(softib, "a.conf", A, level))
    assert keys(softib) == {A}
    lids, before = fabric_of(softib).lid.copy(), violations(softib)
    opensm(softib, stock, options(softib, "b.conf", B, level), B)
    assert (fabric_of(softib).lid == lids).all() and violations(softib) == before


@pytest.mark.slow
def test_what_hides_its_key_is_said_once_with_what_to_do(softib):
    softib("up", "net.yaml", "--sm", "external", "--detach")
    ours(softib, options(softib, "a.conf", A, 1))
    os.unlink(softib.folder / "guid2mkey")
    said = own(
        softib,
        "sm",
        "run",
        "--once",
        "--priority",
        "3",
        "--sm-config",
        options(softib, "b.conf", B, 1),
        "--guid2lid",
        "guid2lid",
        "--log-file",
        "log",
    )
    assert keys(softib) == {A} and "holds an M_Key unknown to this manager" in said
    log = (softib.folder / "log").read_text().splitlines()
    named = [line for line in log if "M_Key" in line]
    assert named and len(named) == len({line.split('"what"')[1] for line in named})
