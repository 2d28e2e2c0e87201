"""Mutants for a running daemon: clients of each kind that owe nothing (what they sent is answered, or comes back).

Frames and control messages of ibsim's protocol, messages to umad devices, lines to the control door. ``bench/fuzz.py`` runs
millions of them, ``test_fuzz_sockets`` a part.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable

import numpy as np

from softib.fabric.columns import COLUMNS
from softib.fabric.topologies.registry import generate
from softib.live.daemon import Daemon, Settings
from softib.live.instances import claim
from softib.live.umad.wire import constant, types
from softib.scenario.bring_up import bring_up
from tests.agents.mutants import DECLARED, Mutants
from tests.live.serving import MAGIC, Raw, mad

HARDWARE = [c.name for c in COLUMNS if c.writer == "hardware"]
WINDOW = 8
"""Below the ten datagrams that a socket holds: this client reads before it sends more."""
PATIENCE_S = 60.0
LOW48 = (1 << 48) - 1
NOTHING, TRAPS = np.array([0, 0], np.uint64), np.array([1 << 5, 0], np.uint64)
"""Unsolicited methods that an agent takes: none, or Trap."""


class Running(threading.Thread):
    """A daemon in a thread of the test, its subnet up."""

    def __init__(self, name: str):
        super().__init__(daemon=True)
        self.daemon_ = Daemon(claim(name), generate("fat-tree", radix=4, levels=2), Settings(sm="none"))
        self.fabric = self.daemon_.fabric
        bring_up(self.fabric, plane=self.daemon_.router.plane)
        self.failure: BaseException | None = None
        self.calls: list[Callable[[], None]] = []
        self.running = True
        self.start()

    def run(self) -> None:
        try:
            while self.running:
                self.daemon_.step()
                while self.calls:
                    self.calls.pop(0)()
        except BaseException as failure:
            self.failure = failure
            raise

    def view(self, node: int) -> str:
        """Name of the view of the first port of ``node``. Made in the daemon's thread: others ask for views meanwhile."""
        f, done, made = self.fabric, threading.Event(), []

        def show() -> None:
            try:
                made.append(self.daemon_.umads.views.show(f.node_name(node), int(f.node_base[node]) + 1).folder.name)
            finally:
                done.set()

        self.calls.append(show)
        assert done.wait(PATIENCE_S) and made, f"no view of {f.node_name(node)}"
        return made[0]

    def stop(self) -> None:
        self.running = False
        self.join(60)
        crash_log, log = self.daemon_.crash_log, self.daemon_.instance.log
        self.daemon_.close()
        assert self.failure is None, self.failure
        assert crash_log.count == 0, log.read_text()[-3000:]


def is_request(m: np.ndarray) -> bool:
    return not m[3] & 0x80 and m[3] != 7


def stamp(m: np.ndarray, tid: int) -> None:
    m[8:16] = np.frombuffer(struct.pack(">Q", tid), np.uint8)


class Frames:
    """A client of ibsim's protocol that owes nothing: what it sent is in ``waiting`` until it came back."""

    def __init__(self, running: Running, node: int, rng: np.random.Generator):
        f = running.fabric
        self.raw = Raw(running.daemon_.server.sockets.base, f.node_name(node))
        self.raw.data.setblocking(False)
        self.rng, self.waiting, self.sent, self.next = rng, {}, 0, 0
        self.mutants = Mutants(f, int(f.node_base[node]) + 1, rng)
        self.stock: list[tuple[np.ndarray, int]] = []

    def mutant(self) -> tuple[np.ndarray, int]:
        if not self.stock:
            batch = self.mutants.batch(512, DECLARED[self.rng.integers(len(DECLARED))])
            self.stock = list(zip(batch.mad, batch.dlid.tolist(), strict=True))
        return self.stock.pop()

    def send(self) -> None:
        """One mutant, now and then of a wrong size, or twice."""
        m, dlid = self.mutant()
        self.next += 1
        stamp(m, int(self.rng.integers(0, 1 << 16)) << 48 | self.next)
        head = struct.pack(
            ">HHHHIIIIQ", dlid, 0, int(self.rng.integers(0, 1 << 16)), 0, *self.rng.integers(0, 4, 3).tolist(), 0, 256
        )
        frame = head + m.tobytes()
        draw = self.rng.random()
        if draw < 0.03:
            size = int(self.rng.choice([0, 1, 31, 32, 287, 289, 500]))
            self.raw.data.send((frame * 2)[:size])
            return
        for _ in range(2 if draw > 0.98 else 1):
            if is_request(m):
                self.waiting[self.next] = self.waiting.get(self.next, 0) + 1
            self.raw.data.send(frame)
            self.sent += 1

    def read(self, everybody: dict[int, Frames]) -> bool:
        """Take what is there; whose request it is, answered, bounced or handed to a program, is not waiting any more."""
        got = False
        while True:
            try:
                message = self.raw.data.recv(1000)
            except BlockingIOError:
                return got
            got = True
            assert len(message) == 288
            tid = int.from_bytes(message[40:48], "big")
            whose = everybody.get(tid >> 48)
            if whose is not None and whose.waiting.get(tid & LOW48):
                whose.waiting[tid & LOW48] -= 1
                if not whose.waiting[tid & LOW48]:
                    del whose.waiting[tid & LOW48]


def frames(running: Running, total: int, seed: int) -> int:
    """``total`` frames from four clients; returns how many were sent."""
    rng = np.random.default_rng(seed)
    clients = [Frames(running, int(n), rng) for n in running.fabric.cas[:4]]
    everybody = {c.raw.number: c for c in clients}
    while sum(c.sent for c in clients) < total:
        for c in clients:
            for _ in range(int(rng.integers(1, WINDOW + 1)) // 2):
                c.send()
        until = time.monotonic() + PATIENCE_S
        while any(c.waiting for c in clients) and time.monotonic() < until:
            if not sum(c.read(everybody) for c in clients):  # every one of them
                time.sleep(0.0001)
        left = {c.raw.number: dict(c.waiting) for c in clients if c.waiting}
        assert not left, f"neither answered nor back: {left}"
    for c in clients:
        c.raw.data.setblocking(True)
        c.raw.close()
    return sum(c.sent for c in clients)


class Device:
    """A program with an open umad device and agents of every class."""

    def __init__(self, running: Running, view: str, rng: np.random.Generator):
        self.path, self.rng = str(running.daemon_.umads.path), rng
        self.kind = types()["softib_umad_ask"]
        self.sock, told = self.ask(op=constant("OPEN"), view=view, path="0")
        assert told["error"] == 0, int(told["error"])
        self.handle = int(told["value"])
        self.agents = {}
        for klass, version in ((0x81, 1), (0x01, 1), (0x04, 1), (0x21, 2), (0x0A, 1), (0x03, 2), (0x32, 1)):
            _, told = self.ask(
                op=constant("REGISTER"),
                handle=self.handle,
                qpn=int(klass not in (0x81, 0x01)),
                mgmt_class=klass,
                mgmt_class_version=version,
                oui=0x2C9 if klass == 0x32 else 0,
                method_mask=TRAPS if klass == 0x01 else NOTHING,
            )
            if not told["error"]:
                self.agents[klass] = int(told["value"])
        self.waiting: dict[int, str] = {}
        self.sent = self.next = 0

    def ask(self, **fields) -> tuple[socket.socket, np.ndarray]:
        asked = np.zeros(1, self.kind)
        asked["magic"], asked["version"] = constant("MAGIC"), constant("VERSION")
        for name, value in fields.items():
            asked[name] = value
        return self.say(asked.tobytes())

    def say(self, message: bytes) -> tuple[socket.socket, np.ndarray]:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(PATIENCE_S)
        s.connect(self.path)
        s.send(message)
        answer = s.recv(1000)
        told = types()["softib_umad_reply"]
        return s, np.frombuffer(answer.ljust(told.itemsize, b"\0")[: told.itemsize], told)[0]

    def send(self, m: np.ndarray, dlid: int) -> None:
        self.next += 1
        stamp(m, self.next)
        head = np.zeros(1, types()["softib_umad_head"])
        raw = head.view(np.uint8)
        raw[:] = self.rng.integers(0, 256, raw.shape, np.uint8) if self.rng.random() < 0.05 else 0
        sound = self.rng.random() < 0.9
        agent = self.agents.get(int(m[1]))
        if sound and agent is not None:
            head["id"], head["timeout_ms"], head["retries"] = agent, self.rng.integers(1, 20), self.rng.integers(0, 2)
            head["length"], head["qpn"] = 320, 0
            head["lid"] = np.frombuffer(int(dlid).to_bytes(2, "big"), "=u2")[0]
            # A program gets what it waits for: the MAD as it is, so no response and no header of RMPP that lies.
            if is_request(m) and m[1] in (0x81, 0x04, 0x21, 0x0A) and m[3] in (1, 2):
                self.waiting[self.next] = f"{head[0]} {m.tobytes()[:40].hex()}"
        message = head.tobytes() + m.tobytes()
        if not (sound and agent is not None):
            message = message[: int(self.rng.choice([0, 1, 63, 64, 99, 100, 200, 320]))] or b"\0"
        self.sock.send(message)
        self.sent += 1

    def read(self) -> bool:
        got = False
        self.sock.settimeout(0)
        try:
            while True:
                message = self.sock.recv(1000)
                assert message, "the daemon closed a device"
                got = True
                if len(message) >= 80:
                    self.waiting.pop(int.from_bytes(message[76:80], "big"), None)  # the upper half is the driver's
        except BlockingIOError:
            return got


def devices(running: Running, total: int, seed: int) -> int:
    """``total`` messages from three devices, and questions that are none."""
    rng = np.random.default_rng(seed)
    f = running.fabric
    nodes = [int(n) for n in f.cas[[0, 5, 6]]]  # the first is where traps go: those that its own requests raise, too
    open_ = [Device(running, running.view(n), rng) for n in nodes]
    stocks = [Mutants(f, int(f.node_base[n]) + 1, rng) for n in nodes]
    while sum(d.sent for d in open_) < total:
        for device, stock in zip(open_, stocks, strict=True):
            batch = stock.batch(WINDOW, DECLARED[rng.integers(len(DECLARED))])
            for m, dlid in zip(batch.mad, batch.dlid.tolist(), strict=True):
                device.send(m, dlid)
        until = time.monotonic() + PATIENCE_S
        while any(d.waiting for d in open_) and time.monotonic() < until:
            if not sum(d.read() for d in open_):
                time.sleep(0.0005)
        left = [d.waiting for d in open_ if d.waiting]
        assert not left, f"neither answered nor timed out: {left}"
        questions(open_[0], rng)
    for d in open_:
        d.sock.close()
    return sum(d.sent for d in open_)


def questions(device: Device, rng: np.random.Generator) -> None:
    """One random question: right head or not, any fields, any size. It is answered, and the connection ends or is a file."""
    asked = np.zeros(1, device.kind)
    raw = asked.view(np.uint8)
    raw[:] = rng.integers(0, 256, raw.shape, np.uint8)
    if rng.random() < 0.9:
        asked["magic"], asked["version"] = constant("MAGIC"), constant("VERSION")
        asked["op"] = rng.integers(0, 8)
        if rng.random() < 0.5:
            asked["handle"], asked["mgmt_class_version"], asked["qpn"] = (
                device.handle,
                rng.integers(0, 9),
                rng.integers(0, 3),
            )
            asked["mgmt_class"] = 0x09  # not one of those whose answers are awaited
    message = asked.tobytes()[: int(rng.choice([device.kind.itemsize] * 6 + [1, 40, 120]))]
    s, _ = device.say(message)
    s.close()


def lines(running: Running, total: int, seed: int) -> int:
    """Lines to the control door: operations with values of any type, and no JSON at all. Each line has one answer."""
    rng = np.random.default_rng(seed)
    values = [None, True, -1, 0, 1, 2**70, 1.5, float("nan"), "", "leaf-1[1]", "leaf-1[1", "host-0001", "\0", "x" * 3000, [], [1], {}, {"a": []},
              "link-down", "link-up", "\ud800", "../../etc", "leaf-9[99]"]  # fmt: skip # a packed list of short values
    keys = ["op", "kind", "where", "node", "port", "fabric", "extra", ""]
    ops = [op for op in running.daemon_.control.operations if op != "down"]
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(PATIENCE_S)
    s.connect(str(running.daemon_.instance.control))
    file = s.makefile("rb")
    for _ in range(total):
        asked = {k: values[rng.integers(len(values))] for k in rng.choice(keys, rng.integers(0, 5))}
        if rng.random() < 0.8:
            asked["op"] = ops[rng.integers(len(ops))]
        if asked.get("op") == "down":
            continue
        line = json.dumps(asked).encode()
        for _ in range(int(rng.integers(0, 3)) if rng.random() < 0.3 else 0):
            at = int(rng.integers(0, len(line)))
            line = line[:at] + rng.integers(0, 256, 1, np.uint8).tobytes() + line[at + 1 :]
        line = line.replace(b"\n", b" ")
        if b"down" in line and b"link-down" not in line:
            continue
        s.sendall(line + b"\n")
        answer = json.loads(file.readline())
        assert isinstance(answer, dict) and not answer.get("bug"), (line, answer)
    s.close()
    return total


def control(running: Running, total: int, seed: int) -> int:
    """Messages of ibsim's control channel; each of the right size and magic has an answer of its own type, or a refusal."""
    rng = np.random.default_rng(seed)
    raw, good = (Raw(running.daemon_.server.sockets.base) for _ in range(2))
    for _ in range(total):
        message = bytearray(rng.integers(0, 256, 80, np.uint8).tobytes())
        message[:4] = struct.pack("=I", MAGIC if rng.random() < 0.95 else int(rng.integers(0, 1 << 32)))
        message[4:8] = struct.pack(
            "=I", int(rng.choice([raw.number, good.number, 0, 0xFFFF, int(rng.integers(0, 1 << 32))]))
        )
        message[8:12] = struct.pack("=I", int(rng.integers(0, 13)))
        if message[8] == 1 and rng.random() < 0.5:
            message[28:60] = b"host-0001".ljust(32, b"\0")
        size = int(rng.choice([80] * 12 + [0, 1, 79, 81, 500]))
        raw.control.send((bytes(message) * 7)[:size])
        if size == 80 and message[:4] == struct.pack("=I", MAGIC):
            answer = raw.control.recv(1000)
            assert len(answer) == 80 and answer[:4] == bytes(message[:4])
            assert answer[8:12] in (bytes(message[8:12]), bytes(4))
    good.send(mad(tid=1))
    assert good.receive()[0]["status"] == 0
    raw.control.close(), raw.data.close(), good.close()
    return total


PARTS = (frames, devices, lines, control)


def hardware(running: Running) -> dict[str, bytes]:
    """The columns that no MAD may change."""
    return {name: getattr(running.fabric, name).tobytes() for name in HARDWARE}


def all_at_once(running: Running, shares: dict[str, int], seed: int, limit_s: float) -> dict[str, int | BaseException]:
    """Each part in a thread of its own: how many it sent, or what went wrong."""
    results: dict[str, int | BaseException] = {}

    def run(part: Callable[[Running, int, int], int], total: int) -> None:
        try:
            results[part.__name__] = part(running, total, seed)
        except BaseException as failure:
            results[part.__name__] = failure

    threads = [threading.Thread(target=run, args=(p, shares[p.__name__]), daemon=True) for p in PARTS]
    for t in threads:
        t.start()
    end = time.monotonic() + limit_s
    for t in threads:
        t.join(max(0.0, end - time.monotonic()))
    return results
