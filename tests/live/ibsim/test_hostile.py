"""Mutated frames: every request gets exactly one answer or its bounce, the server lives, and nothing outside a table moves."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.columns import COLUMNS
from softib.fabric.topologies.registry import generate
from softib.live.ibsim.kernels import read_frames
from softib.live.ibsim.sockets import UnixSockets
from softib.live.ibsim.wire import frames_of
from softib.live.mad_router import BATCH, MadRouter
from softib.mad.batch import MadBatch
from tests.live.serving import MAGIC, Raw, Serving, mad

ATTRIBUTES = (0x02, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1B, 0x20, 0x33, 0xFF90, 0x01, 0x1D, 0x99)
CLASSES = (0x01, 0x81, 0x03, 0x04, 0x09, 0x0A, 0x21, 0x32, 0x00, 0xFF)
METHODS = (1, 2, 3, 5, 6, 0x12, 0x81, 7, 0x00, 0x7F)
HARDWARE = [c.name for c in COLUMNS if c.writer == "hardware"]


class Ear:
    """A station that keeps what it is given."""

    def __init__(self, number: int, port: int, issm: bool = False):
        self.number, self.port, self.issm = number, port, issm
        self.classes = np.zeros(256, np.uint8)
        self.heard: list[np.ndarray] = []
        """Datagrams, as a client gets them."""

    def takes(self, m: np.ndarray) -> bool:
        return self.issm and not m[3] & 0x80 and m[3] != 7 and m[1] in (1, 3, 0x81)

    def deliver(self, batch: MadBatch) -> None:
        self.heard += list(frames_of(batch))


def frames_from(rng: np.random.Generator, lids: np.ndarray) -> np.ndarray:
    """A batch of structure-aware mutants: right heads with wrong parts, and plain noise."""
    n = int(rng.integers(1, BATCH + 1))
    frames = np.zeros((n, 288), np.uint8)
    for i in range(n):
        m = mad(
            int(rng.choice(CLASSES)),
            int(rng.choice(METHODS)),
            int(rng.choice(ATTRIBUTES)),
            int(rng.choice((0, 1, 3, 255, 0x10000, 0x30000, 0xFFFFFFFF, int(rng.integers(0, 1 << 32))))),
            int(rng.integers(0, 1 << 62)),
            rng.integers(0, 6, int(rng.integers(0, 5))).tolist(),
            int(rng.choice((1, 2, 0))),
            rng.integers(0, 256, 64, np.uint8).tobytes(),
        )
        for _ in range(int(rng.integers(0, 4))):
            m[rng.integers(0, 256)] = rng.integers(0, 256)
        if rng.random() < 0.05:
            m[:] = rng.integers(0, 256, 256, np.uint8)
        dlid = (
            0xFFFF
            if m[1] == 0x81 and rng.random() < 0.95
            else int(rng.choice([*lids.tolist(), 0, 0xBFFF, 0xC000, 0xFFFF]))
        )
        frames[i, :32] = np.frombuffer(struct.pack(">HHHHIIIIQ", dlid, 0, 0, 0, 1, 1, 0, 0xFFFF, 256), np.uint8)
        frames[i, 32:] = m
    return frames


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_every_request_has_one_answer(seed):
    from softib.scenario.bring_up import bring_up

    f = generate("fat-tree", radix=4, levels=2)
    router = MadRouter(AgentPlane(f))
    bring_up(f, plane=router.plane)
    before = {name: getattr(f, name).copy() for name in HARDWARE}
    port = int(f.node_base[f.cas[2]]) + 1
    me, sm = Ear(7, port), Ear(8, int(f.node_base[f.cas[0]]) + 1, issm=True)
    router.join(me)
    router.join(sm)
    rng = np.random.default_rng(seed)
    lids = np.unique(f.lid[f.end_ports()])
    sent = 0
    for round_ in range(300):
        frames = frames_from(rng, lids)
        n = len(frames)
        read_frames(frames, n, router.requests)
        me.heard.clear()
        heard_before = [bytes(x[32:]) for x in sm.heard]
        router.handle(me, n, round_ * 10**9)
        requests = frames[(frames[:, 35] & 0x80 == 0) & (frames[:, 35] != 7)]
        tids = sorted(bytes([0, 7, *x[42:48]]) for x in requests)
        forwarded = [x for x in sm.heard[len(heard_before) :] if bytes(x[40:42]) == b"\0\7"]
        got = sorted(bytes(x[40:48]) for x in me.heard + forwarded)
        assert got == tids, "each request: an answer, a bounce, or handed to the manager"
        for x in me.heard:
            status = int.from_bytes(bytes(x[16:20]), "big")
            assert status in (0, 110) and (status == 110) == (not x[35] & 0x80), "an answer, or the request with 110"
        sm.heard.clear()
        sent += n
    assert sent > 5000
    for name, old in before.items():
        assert getattr(f, name).tobytes() == old.tobytes(), f"{name} is hardware's"


def test_noise_on_the_control_channel():
    s = Serving(generate("fat-tree", radix=4, levels=2))
    rng = np.random.default_rng(5)
    noisy, good = Raw(s.base), Raw(s.base)
    for _ in range(2000):
        size = int(rng.choice((80, 80, 80, 0, 79, 81, 500)))
        message = bytearray(rng.integers(0, 256, size, np.uint8).tobytes())
        if size == 80 and rng.random() < 0.9:
            message[:4] = struct.pack("=I", MAGIC)
            message[4:8] = struct.pack(
                "=I", int(rng.choice((noisy.number, good.number, 0, 0xFFFF, int(rng.integers(0, 1 << 32)))))
            )
            message[8:12] = struct.pack("=I", int(rng.integers(0, 13)))
        noisy.control.settimeout(60)
        noisy.control.send(message)
        noisy.control.settimeout(0)
        try:
            while True:
                assert len(noisy.control.recv(1000)) == 80
        except BlockingIOError:
            pass
    good.send(mad(tid=1))
    assert good.receive()[0]["status"] == 0
    noisy.close(goodbye=False)
    good.close()
    s.stop()


def test_a_second_server_of_the_name_is_refused_in_one_line():
    from softib.errors import InputError
    from softib.live.ibsim.server import IbsimServer

    s = Serving(generate("fat-tree", radix=4, levels=2))
    with pytest.raises(InputError, match="Address already in use"):
        IbsimServer(s.router, UnixSockets(s.base))
    s.stop()
