"""Stock OpenSM is killed under programs that transfer: they go on, nobody finds a new route, and its successor gives them again."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from tests.live.serving import wait_for
from tests.preload.verbs.applications import FABRIC, A, Applications, B, C, stop, wait_for_listener


@pytest.fixture
def managed(stock):
    """A fabric whose only subnet manager is the OpenSM that ``begin_manager`` starts."""
    stock("opensm")
    made = Applications(FABRIC, "--sm", "external")
    yield made
    made.close()


def begin_manager(fabric: Applications, stock) -> subprocess.Popen:
    log = fabric.folder / "opensm.log"
    log.unlink(missing_ok=True)
    sm = fabric.begin(
        C,
        stock("opensm"),
        "-f",
        str(log),
        "-e",
        "-d2",
        OSM_CACHE_DIR=str(fabric.folder),
        OSM_TMP_DIR=str(fabric.folder),
    )
    assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"), 60)
    return sm


def meet(fabric: Applications, stock) -> tuple[int, str]:
    """A server and a client of rdma_cm: what the client ends with, and says."""
    server = fabric.begin(A, stock("ucmatose"), "-C", "1")
    try:
        time.sleep(1.0)
        client = fabric.begin(B, stock("ucmatose"), "-C", "1", "-s", fabric.address(A))
        try:
            output = client.communicate(timeout=240)[0]
        finally:
            stop(client)
    finally:
        stop(server)
    return client.returncode, output


@pytest.mark.stock
@pytest.mark.slow
def test_transfers_go_on_without_a_manager(managed, stock):
    sm = begin_manager(managed, stock)
    port = next(managed.ports)
    arguments = (stock("ib_write_bw"), "-D", "15", "-F", "-s", "4096", "-p", str(port))
    one = managed.begin(A, *arguments)
    two = None
    try:
        wait_for_listener(port, one)
        two = managed.begin(B, *arguments, "127.0.0.1")
        managed.until_busy(B)
        code, output = meet(managed, stock)
        assert code == 0, output
        stop(sm)
        code, output = meet(managed, stock)
        assert code != 0 and "RDMA_CM_EVENT_ROUTE_ERROR" in output, output
        assert two.poll() is None
        managed.until_busy(B)
        sm = begin_manager(managed, stock)
        code, output = meet(managed, stock)
        assert code == 0, output
        output = two.communicate(timeout=240)[0]
        assert (two.returncode, one.wait(120)) == (0, 0), output
        assert float(re.findall(r"^ 4096 +\d+ +[\d.]+ +([\d.]+)", output, re.M)[0]) > 1, output
    finally:
        for program in (sm, one, two):
            if program is not None:
                stop(program)
