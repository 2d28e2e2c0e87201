"""A server of ibsim's protocol as the tests of its invariants want it (``tests/live/test_protocol*.py``)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo
from tests.live.serving import (
    Serving,
)

TIMED_OUT = 110


@pytest.fixture
def served():
    s = Serving(generate("fat-tree", radix=4, levels=2))
    yield s
    s.stop()


@pytest.fixture
def up(served):
    """The same with LIDs and routes, as a subnet manager leaves them."""
    from softib.scenario.bring_up import bring_up

    served.do(lambda: bring_up(served.fabric, plane=served.router.plane))
    f = served.fabric
    caps = PortInfo.cap_mask.get(f.port_info)
    PortInfo.cap_mask.set(f.port_info, caps & ~np.uint32(CapMask.IS_SM))
    return served


def host(s: Serving, i: int) -> tuple[str, int, int]:
    """Name, port row and LID of CA ``i``."""
    f = s.fabric
    node = int(f.cas[i])
    port = int(f.node_base[node]) + 1
    return f.node_name(node), port, int(f.lid[port])
