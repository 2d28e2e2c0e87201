"""A port has one subnet manager: the second one is refused as the kernel's driver refuses it (one agent for each
unsolicited MAD, one open issm file), whatever the first one is; stock OpenSM names the reason."""

from __future__ import annotations

import pytest

from tests.live.umad_sm.lab import own
from tests.live.umad_sm.managers import FIRST, SECOND, Managers, wait

ISSM = """
import os, sys
try:
    os.open("/dev/infiniband/issm0", os.O_RDWR | os.O_NONBLOCK)
except OSError as error:
    print(error.strerror)
"""


def masters(s) -> list[str]:
    """Ports whose manager is master, by the daemon."""
    status = s.status()[0]
    return [c["node"] for c in status["clients"] if c["sm"]] + [status["sm"]["node"]] * (
        status["sm"]["kind"] == "internal"
    )


def test_a_manager_on_the_port_of_the_fabrics_own_is_refused_by_name(softib):
    softib("up", "net.yaml", "--detach")
    refusal = own(softib, "sm", "run", "--once", "--priority", "15", node=FIRST, code=2)
    assert f"process {softib.status()[0]['pid']}" in refusal and "--node" in refusal and "--sm external" in refusal
    assert len(masters(softib)) == 1
    assert "Resource temporarily unavailable" in softib("run", "--node", FIRST, "--", "python3", "-c", ISSM)
    assert "unavailable" not in softib("run", "--node", SECOND, "--", "python3", "-c", ISSM)
    assert "no change was made" in own(softib, "sm", "run", "--dry-run", node=FIRST)


@pytest.mark.stock
@pytest.mark.parametrize("first", ["internal", "softib", "opensm"])
def test_stock_opensm_reports_another_instance(softib, stock, first):
    opensm, sminfo = stock("opensm"), stock("sminfo")
    softib("up", "net.yaml", "--sm", "internal" if first == "internal" else "external", "--detach")
    if first != "internal":
        managers = Managers(softib, stock, {FIRST: first})
        managers.start(FIRST)
        assert wait(managers.converged, 60.0), managers.why()
    pids = [c["pid"] for c in softib.status()[0]["clients"] if c["sm"]]
    second = softib("run", "--node", FIRST, "--", opensm, "-o", "-f", "second.log")
    assert "another instance of OpenSM is already running" in second
    if pids:
        assert f"(process {pids[0]})" in own(softib, "sm", "run", "--priority", "15", node=FIRST, code=2)
    assert "SMINFO_MASTER" in softib("run", "--node", SECOND, "--", sminfo)
