"""PortSamplesControl ends when its time is over, whether MADs come or not: the daemon lets time pass (IBA 16.1.3.2)."""

from __future__ import annotations

import numpy as np

from softib.iba.perf import PortSamplesControl, PortSamplesResult
from tests.live.serving import Raw, mad, wait_for

PERF, SET, GET = 0x04, 2, 1


def test_an_idle_daemon_ends_the_sampling(running):
    """What an engine moves after the interval is not in the sample, though no MAD came at its end."""
    f, router = running.fabric, running.daemon_.router
    c = Raw(running.daemon_.server.sockets.base)
    port = int(f.node_base[f.cas[0]]) + 1

    def ask(method: int, attr: int, data: bytes = b"") -> np.ndarray:
        c.send(mad(PERF, method, attr, data=data), int(f.lid[port]), 1, 1)
        answer = c.receive()[1]
        assert not answer[5] and answer[3] == 0x81
        return answer[64:]

    size = PortSamplesControl.size
    tick = int(PortSamplesControl.tick.get(ask(GET, 0x10, bytes([0, 1]))[:size]))
    ps = 10_000 * (tick + 1)  # an upper bound of ten bit times at 1 Gb/s and more
    want = PortSamplesControl.pack(port_select=1, sample_interval=int(3e11 / ps), counter_select=[1] + [0] * 14)
    ask(SET, 0x10, want.tobytes())
    assert router.plane.tables.samplers[0, 0] == 1, "it is armed"
    assert wait_for(lambda: not router.plane.tables.samplers[0, 0]), "and ends while nobody asks anything"
    f.counters["port_xmit_data"][port] += 1_000_000
    result = PortSamplesResult.unpack(ask(GET, 0x11, bytes([0, 1]))[: PortSamplesResult.size].tobytes())
    assert result["sample_status"] == 0 and max(result["counter"]) < 1_000_000
    c.close()
