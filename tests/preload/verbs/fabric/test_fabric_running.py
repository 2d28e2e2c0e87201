"""Programs on a running fabric: what they see, what they count, and what is left when they are killed."""

import os
import signal
import socket
import struct

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.counters import COUNTER_NAMES
from softib.iba.notice import TrapBadKey
from softib.iba.perf_optional import PortCountersExtended
from softib.iba.smp import PortInfo
from softib.live.verbs import server
from softib.mad.batch import MadBatch
from tests.agents.smps import requests
from tests.preload.verbs.fabric_up import cas_of, line_of, route_counts, tree

TRAFFIC = [n for n in COUNTER_NAMES if n.endswith(("_data", "_pkts"))]


def counters(f):
    return {n: f.counters[n].astype(np.int64).copy() for n in COUNTER_NAMES}


def grown(f, before, port, name):
    return int(f.counters[name][port]) - int(before[name][port])


def route(f, a, z):
    """Ports that a packet from ``a`` to ``z`` leaves, by the tables."""
    passed, out = [a], a
    while True:
        entry = int(f.port_peer[out])
        node = int(f.port_node[entry])
        if not f.is_switch[node]:
            assert entry == z
            return passed
        out = int(f.node_base[node]) + int(f.lft[f.switch_of_node[node], int(f.lid[z])])
        passed.append(out)


def expect(f, sent):
    """Growth of each counter at each port, from ``sent`` = [(ports left, packets, words)]."""
    want = {n: np.zeros(f.sizes.ports, np.int64) for n in TRAFFIC}
    for ports, packets, dwords in sent:
        for out in ports:
            into = int(f.port_peer[out])
            for row, side in ((out, "xmit"), (into, "rcv")):
                want[f"port_{side}_data"][row] += dwords
                want[f"port_{side}_pkts"][row] += packets
                want[f"port_unicast_{side}_pkts"][row] += packets
    return want


def assert_grown(f, before, want):
    for name in TRAFFIC:
        growth = f.counters[name].astype(np.int64) - before[name]
        assert (growth == want[name]).all(), (name, np.flatnonzero(growth != want[name])[:5])


def test_a_program_sees_its_devices_as_they_are(up):
    running = up(tree())
    f = running.fabric
    program = running.start("devices")
    got = line_of(program)
    assert got["process"] >= 1 and [d["name"] for d in got["devices"]] == ["mlx5_0"]
    (d,) = got["devices"]
    node, (port,) = d["node"], d["list"]
    assert node == int(f.cas[0]) and port["row"] == int(f.port(node, 1)) and d["desc"] == f.node_name(node)
    assert (d["node_guid"], d["vendor_id"], d["ports"]) == (int(f.node_guid[node]), int(f.vendor_id[node]), 1)
    info = f.port_info[port["row"]]
    for name, field in (
        ("lid", "lid"),
        ("sm_lid", "master_sm_lid"),
        ("cap_mask", "cap_mask"),
        ("state", "port_state"),
        ("phys_state", "port_phys_state"),
        ("lmc", "lmc"),
        ("sm_sl", "master_sm_sl"),
        ("subnet_timeout", "subnet_timeout"),
        ("max_vl_num", "vl_cap"),
        ("max_mtu", "mtu_cap"),
        ("active_mtu", "neighbor_mtu"),
        ("active_width", "link_width_active"),
    ):
        assert port[name] == int(getattr(PortInfo, field).get(info)), name
    assert port["active_speed"] == 128  # NDR
    prefix = int(PortInfo.gid_prefix.get(info))
    assert port["gids"][0] == f"{prefix:016x}{int(f.port_guid[port['row']]):016x}" and port["pkeys"][0] == 0xFFFF
    assert port["beyond"] == [-22, -22] and len(port["pkeys"]) == int(f.pkey_cap[port["row"]])
    # 127.64.0.1 + row, and back.
    assert socket.inet_ntoa(struct.pack("!I", port["address"])).startswith("127.64.")
    assert port["port_of_address"] == port["row"]


def test_what_programs_count_is_on_every_port_of_the_path_and_only_once(up):
    """The law of the fold: counters = sum over cells, for living, retired and dead ones."""
    running = up(tree())
    f, rng = running.fabric, np.random.default_rng(2)
    cas = cas_of(f)
    before = running.do(lambda: counters(f))
    sent = []
    programs = []
    for then in ("wait", "exit", "fold"):
        routes = []
        for _ in range(150):
            a, z = (int(p) for p in rng.choice(cas, 2, replace=False))
            counts = [
                [int(d), int(n), int(w)]
                for d, n, w in zip(
                    rng.integers(0, 2, 3), rng.integers(1, 1 << 20, 3), rng.integers(1, 1 << 40, 3), strict=True
                )
            ]
            routes.append(route_counts(f, a, z, counts))
            for d, n, w in counts:
                sent.append((route(f, z, a) if d else route(f, a, z), n, w))
        program = running.start("count", at={"ways": routes, "then": then, "end": 70})
        assert all(r == [0, 0] for r in line_of(program))
        programs.append(program)
    assert programs[2].stdout.readline() == "folded\n"
    assert programs[1].wait(120) == 0
    want = expect(f, sent)
    running.wait(lambda: len(running.daemon.verbs.processes) == 2)
    running.do(lambda: running.daemon.router.fold(0))
    running.do(lambda: assert_grown(f, before, want))
    # Nothing is counted twice, whatever happens to the cells.
    for program in (programs[0], programs[2]):
        program.send_signal(signal.SIGKILL)
        program.wait()
    running.wait(lambda: not running.daemon.verbs.processes)
    running.do(lambda: assert_grown(f, before, want))
    assert running.daemon.traffic.owners() == set()


def test_a_pma_get_shows_what_was_sent_before_it(up):
    """Asked through the daemon's own router, in the batch that stock programs' requests are in."""
    running = up(tree(2))
    f = running.fabric
    a, z = cas_of(f)[0], cas_of(f)[-1]
    program = running.start("count", at={"ways": [route_counts(f, a, z, [[0, 5, 500]])], "then": "wait"})
    line_of(program)

    def ask():
        router, answers = running.daemon.router, []
        router.fold(0)
        before = int(f.counters["port_rcv_pkts"][z])
        cells = running.daemon.traffic.cells
        cells.counts[1, 8] += 3  # as the program does
        cells.cells[0, 1] = 1

        class Asker:
            number, port, issm = 77, a, False
            classes = np.zeros(256, np.uint8)

            def takes(self, mad):
                return False

            def deliver(self, batch):
                answers.append(batch.copy())

        mad = requests(1, klass=4, attr=0x1D, dlid=int(f.lid[z]), data=PortCountersExtended.pack(port_select=1)).mad[0]
        q = router.requests
        q.dlid[0], q.slid[0], q.dqp[0], q.sqp[0], q.sl[0], q.pkey_index[0] = int(f.lid[z]), 0, 0, 1, 0, 0
        q.mad[0] = mad
        router.handle(Asker(), 1, 0)
        return int(PortCountersExtended.port_rcv_pkts.get(answers[0].mad[0, 64:])) - before

    running.pause()
    shown = []
    running.calls.append(lambda: shown.append(ask()))
    running.wait(lambda: shown)
    assert shown == [3 + 1]  # the request itself has arrived, too


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_program_leaves_exact_totals(up, seed):
    running = up(tree(2))
    f = running.fabric
    a, z = cas_of(f)[seed], cas_of(f)[-1]
    before = running.do(lambda: counters(f))
    program = running.start("count", at={"ways": [route_counts(f, a, z, [])], "then": "loop"})
    line_of(program)
    cell = running.daemon.traffic.cells.counts[1]
    running.wait(lambda: int(cell[8]) > 10_000 * (seed + 1))
    running.pause()
    program.send_signal(signal.SIGKILL)
    program.wait()
    packets, back, dwords, back_dwords = (int(cell[i]) for i in (8, 9, 10, 11))
    assert packets - back in (0, 1) and back_dwords - 7 * back in (0, 7)
    running.paused = False
    running.wait(lambda: not running.daemon.verbs.processes)
    want = expect(f, [(route(f, a, z), packets, dwords), (route(f, z, a), back, back_dwords)])
    running.do(lambda: assert_grown(f, before, want))
    assert running.daemon.traffic.owners() == set() and running.daemon.traffic.fold(0) == 0


def test_partitions_are_counted_and_trapped(up):
    running = up(tree(2))
    f = running.fabric
    a, z = cas_of(f)[0], cas_of(f)[-1]
    raised = []
    plane: AgentPlane = running.daemon.router.plane
    trap = plane.trap

    def watch(notice, tid):
        raised.append(notice)
        return trap(notice, tid)

    plane.trap = watch  # type: ignore[method-assign]
    program = running.start("count", at={"ways": [route_counts(f, a, z, [[0, 9, 90]], pkey=0x8123)], "then": "wait"})
    assert line_of(program) == [[7, 7]]  # SV_PKEY
    running.wait(lambda: int(PortInfo.pkey_violations.get(f.port_info[z])) == 9)
    running.wait(lambda: raised)
    (notice,) = raised
    assert (notice.port, notice.trap) == (z, 257)
    details = np.frombuffer(notice.data, np.uint8)
    got = {n: int(getattr(TrapBadKey, n).get(details)) for n in ("lid1", "lid2", "key", "qp1", "qp2")}
    assert got == {"lid1": int(f.lid[a]), "lid2": int(f.lid[z]), "key": 0x8123, "qp1": 0x11, "qp2": 0x22}


EVENTS = {
    8: "DEVICE_FATAL",
    9: "PORT_ACTIVE",
    10: "PORT_ERR",
    11: "LID_CHANGE",
    12: "PKEY_CHANGE",
    13: "SM_CHANGE",
    17: "CLIENT_REREGISTER",
    18: "GID_CHANGE",
}


def next_event(program):
    kind, portnum, size = line_of(program)
    assert size == 16
    return EVENTS[kind], portnum


def set_info(running, port, **fields):
    """A Set(PortInfo) by directed route from the port itself, as a manager on it would send."""
    router, f = running.daemon.router, running.fabric
    data = f.port_info[port].copy()
    for name in ("port_state", "port_phys_state", "link_down_default_state"):
        getattr(PortInfo, name).set(data, 0)
    for name, value in fields.items():
        getattr(PortInfo, name).set(data, value)
    batch: MadBatch = requests(1, method=2, attr=0x15, mod=int(f.port_num[port]), data=data)
    assert len(router.send(batch, port, 0)) == 1


def test_events_of_a_port(up):
    running = up(tree(2), sm="none")
    f = running.fabric
    port = int(f.port(int(f.cas[0]), 1))
    program = running.start("events")
    assert program.stdout.readline() == "listening\n"
    peer = int(f.port_peer[port])
    steps = [
        (lambda: set_info(running, port, lid=5, master_sm_lid=9), ["LID_CHANGE", "SM_CHANGE"]),
        (lambda: set_info(running, port, client_reregister=1), ["CLIENT_REREGISTER"]),
        (lambda: set_info(running, port, port_state=3), []),
        (lambda: set_info(running, port, port_state=4), ["PORT_ACTIVE"]),
        (lambda: set_info(running, port, gid_prefix=0xFEC0 << 48), ["GID_CHANGE"]),
        (lambda: running.daemon.router.set_link(peer, False, 0), ["PORT_ERR"]),
    ]
    for act, want in steps:
        running.do(act)
        for kind in want:
            assert next_event(program) == (kind, 1)
    pkeys = requests(1, method=2, attr=0x16, data=np.full(64, 0x80, np.uint8))
    running.do(lambda: running.daemon.router.send(pkeys, port, 0))
    assert next_event(program) == ("PKEY_CHANGE", 1)
    running.stop()
    assert next_event(program) == ("DEVICE_FATAL", 0)


def test_more_events_of_a_port_than_its_socket_takes(up):
    """A program that does not read for a while loses none."""
    running = up(tree(2), sm="none")
    f = running.fabric
    port = int(f.port(int(f.cas[0]), 1))
    program = running.start("events")
    assert program.stdout.readline() == "listening\n"
    program.send_signal(signal.SIGSTOP)
    ((_, queue),) = next(iter(running.daemon.verbs.processes.values())).events
    queue.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def renumber() -> None:
        for lid in range(1, 61):
            set_info(running, port, lid=lid, master_sm_lid=9)
            running.daemon.verbs.tick()

    running.do(renumber)
    running.wait(lambda: len(queue) > 20)
    program.send_signal(signal.SIGCONT)
    heard = [next_event(program)[0] for _ in range(61)]
    assert heard.count("LID_CHANGE") == 60 and heard.count("SM_CHANGE") == 1
    running.wait(lambda: not len(queue))


def test_a_forked_child_is_its_own_process(up):
    running = up(tree(2))
    program = running.start("fork")
    first = line_of(program)
    second = line_of(program)
    pid, numbers = (first, second) if isinstance(first, int) else (second, first)
    assert numbers[0] != numbers[1]
    assert {p.number for p in running.daemon.verbs.processes.values()} == set(numbers)
    program.send_signal(signal.SIGKILL)
    program.wait()
    # The child lives, its parent is known dead.
    running.wait(lambda: set(running.daemon.verbs.processes) == {numbers[1]})
    os.kill(pid, signal.SIGKILL)
    running.wait(lambda: not running.daemon.verbs.processes)


def test_without_a_fabric_there_is_no_device_and_one_line(up):
    running = up(tree(2))
    for env, phrase in (
        ({"SOFTIB_UMAD": "", "SOFTIB_VIEW": ""}, "softib run"),
        ({"SOFTIB_UMAD": "/nowhere/umad"}, "no fabric runs at /nowhere/verbs.sock"),
    ):
        out, err = running.start("fail", **env).communicate(timeout=240)
        assert out == "no devices\n" and err.count("\n") == 1 and phrase in err, err
        out, err = running.start("fail", **env, SOFTIB_QUIET="1").communicate(timeout=240)
        assert out == "no devices\n" and err == ""


def test_another_version_is_refused_with_both_named(up):
    running = up(tree(2))
    header = running.daemon.shared.header
    now = int(header["version"])
    header["version"] = 7
    out, err = running.start("fail").communicate(timeout=240)
    assert "version 7" in err and f"version {now}" in err and err.count("\n") == 1 and out == "no devices\n"
    header["version"] = now
    known = server.reply
    server.reply = lambda error=0, number=0: known(71)[:4] + struct.pack("<I", 9) + known(71)[8:]
    try:
        out, err = running.start("fail").communicate(timeout=240)
    finally:
        server.reply = known
    assert f"uses version 9, this library version {server.constant('SERVER_VERSION')}" in err


def test_the_server_survives_what_no_library_would_send(up):
    running = up(tree(2))
    server_socket, rng = running.daemon.verbs, np.random.default_rng(4)
    hello = np.zeros(1, server.types()["softib_server_hello"])
    hello["magic"], hello["version"] = 0x73627276, server.constant("SERVER_VERSION")

    def connect():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(60)
        s.connect(str(server_socket.path))
        return s

    for message in [b"x", bytes(8), bytes(4000), hello.tobytes()[:-1], hello.tobytes() + b"x"]:
        with connect() as s:
            s.send(message)
            assert struct.unpack("<4I", s.recv(64))[2] != 0 and s.recv(64) == b""
    with connect():
        pass  # hangs up without a word
    before = len(os.listdir("/proc/self/fd"))
    with connect() as s:
        s.send(hello.tobytes())
        assert struct.unpack("<4I", s.recv(64))[2] == 0
        file = os.open("/dev/null", os.O_RDONLY)
        for _ in range(200):
            fds = [file] * int(rng.integers(0, 4))
            message = bytes(rng.integers(0, 256, int(rng.choice([1, 4, 8, 9, 100])), dtype=np.uint8))
            if rng.random() < 0.5:
                message = struct.pack("<2I", int(rng.choice([0, 1, 2, 3])), int(rng.choice([0, 5, 10**6])))
            socket.send_fds(s, [message], fds)
            answer = struct.unpack("<4I", s.recv(64))
            assert answer[2] or message[:4] == struct.pack("<I", 2)
        os.close(file)
    running.wait(lambda: not server_socket.processes)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_nonsense_in_the_traffic_file_hurts_nobody(up):
    running = up(tree(2))
    f, cells = running.fabric, running.daemon.traffic.cells
    rng = np.random.default_rng(6)
    hardware = f.port_peer.copy(), f.lft.copy(), f.port_info[:, :44].copy()

    def corrupt():
        running.daemon.traffic.head["high"] = 3
        for _ in range(40):
            cells.cells[: 3 * 64] = rng.integers(0, 1 << 32, (192, 64), dtype=np.uint64).astype(np.uint32)
            cells.cells[: 3 * 64, 0] = rng.integers(0, 6, 192)
            cells.cells[: 3 * 64, 1] = rng.integers(0, 200, 192)
            cells.cells[: 3 * 64, 3:5] = rng.integers(0, 300, (192, 2))
            cells.cells[[0, 64, 128], 1] = 1
            running.daemon.traffic.fold(0)
        running.daemon.traffic.head["high"] = 0xFFFFFFFF
        running.daemon.traffic.fold(0)
        running.daemon.traffic.release(5)
        return True

    assert running.do(corrupt)
    assert all((x == y).all() for x, y in zip(hardware, (f.port_peer, f.lft, f.port_info[:, :44]), strict=True))
    running.daemon.traffic.head["high"] = 0
    line_of(running.start("devices"))
