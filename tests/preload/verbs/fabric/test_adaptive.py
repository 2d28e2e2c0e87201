"""Packets of programs take the ports that adaptive routing permits, and spread over them.

Oracles: all paths that the groups of the manager permit, in plain Python over the columns; the counters of the uplinks
under stock ``ib_send_bw``.
"""

from __future__ import annotations

import itertools
import re
import subprocess

import numpy as np
import pytest

from softib.iba.vendor.ar import BOUNDED, FREE, GROUP_MASK, RC, STATE_SHIFT, STATIC, UC, UD, ARInfo
from tests.preload.verbs.applications import Applications, stop, wait_for_listener
from tests.preload.verbs.fabric_library import NO_PORT, SharedFabricInC, egress, reason
from tests.sm.local_repair_lab import managed

TREE = """
name: f
generation: HDR
sm: {adaptive_routing: free}
topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 8}
"""


def permitted(f, source: int, target: int) -> set[tuple[int, ...]]:
    """Every path of groups from a host's port to another's, as the ports that packets leave."""
    lid, done, todo = int(f.lid[target]), set(), [(source,)]
    while todo:
        path = todo.pop()
        at = int(f.port_peer[path[-1]])
        if at == target:
            done.add(path)
            continue
        node = int(f.port_node[at])
        if not f.is_switch[node]:
            continue
        switch, base = int(f.switch_of_node[node]), int(f.node_base[node])
        words = f.ar_group[switch, int(f.ar_lft[switch, lid]) & GROUP_MASK]
        ports = [p for p in range(1, 65) if int(words[p // 64]) >> p % 64 & 1]
        todo += [(*path, base + p) for p in ports or [int(f.lft[switch, lid])]]
    return done


@pytest.fixture
def adaptive(tmp_path):
    f, _, _, _ = managed("adaptive_routing free", hosts=16)
    return SharedFabricInC(tmp_path, f)


def ends(f) -> list[int]:
    return [int(f.port(int(n), 1)) for n in f.cas]


def test_the_numbers_of_paths_are_exactly_the_paths_of_the_groups(adaptive):
    f = adaptive.fabric
    several = 0
    for a, b in itertools.permutations(ends(f)[::3], 2):
        first = adaptive.walk(a, f.lid[b], transport=RC)
        paths = [adaptive.walk(a, f.lid[b], transport=RC, number=n) for n in range(first.choices)]
        assert all(reason(p) == "ok" and p.keep_us == 0 for p in paths)
        assert {tuple(egress(p)) for p in paths} == permitted(f, a, b) and len(paths) == len(permitted(f, a, b))
        several += len(paths) > 1
    assert several


def test_other_packets_follow_the_forwarding_table(adaptive):
    """Those of a transport that is masked (UD is, by default), of an SL that is, to STATIC LIDs, and of senders without a transport."""
    f = adaptive.fabric
    a, b = ends(f)[0], ends(f)[-1]
    lid = int(f.lid[b])
    table = tuple(egress(adaptive.walk(a, lid)))

    def by_table(**route) -> bool:
        paths = [adaptive.walk(a, lid, **({"transport": RC, "number": n} | route)) for n in range(4)]
        return all(p.choices == 1 and tuple(egress(p)) == table for p in paths)

    assert not by_table() and by_table(transport=UD) and by_table(transport=UC)
    ARInfo.by_sl_en.set(f.ar_info, 1)
    ARInfo.enable_by_sl_mask.set(f.ar_info, 1 << 3)
    assert by_table(sl=0) and not by_table(sl=3)
    ARInfo.by_sl_en.set(f.ar_info, 0)
    f.ar_lft[:, lid] = (f.ar_lft[:, lid] & GROUP_MASK) | STATIC << STATE_SHIFT
    assert by_table()
    f.ar_lft[:, lid] = (f.ar_lft[:, lid] & GROUP_MASK) | FREE << STATE_SHIFT
    ARInfo.ar_enabled.set(f.ar_info, 0)
    assert by_table()


def test_a_bounded_flow_keeps_its_path_for_the_ageing_time(adaptive):
    f = adaptive.fabric
    a, b = ends(f)[0], ends(f)[-1]
    lid = int(f.lid[b])
    f.ar_lft[:, lid] = (f.ar_lft[:, lid] & GROUP_MASK) | BOUNDED << STATE_SHIFT
    assert adaptive.walk(a, lid, transport=RC).keep_us == 0xFFFFFFFF
    ARInfo.ageing_time_value.set(f.ar_info, 250)
    assert adaptive.walk(a, lid, transport=RC).keep_us == 250


def test_a_group_without_a_port_that_is_up(adaptive):
    """The port of the table is used, or, with no_fallback, none."""
    f = adaptive.fabric
    a, b = ends(f)[0], ends(f)[-1]
    lid, leaf = int(f.lid[b]), int(f.switch_of_node[f.port_node[f.port_peer[a]]])
    table = egress(adaptive.walk(a, lid))
    f.ar_group[leaf, int(f.ar_lft[leaf, lid]) & GROUP_MASK] = np.array([1 << 60, 0, 0, 0], np.uint64)  # no such port
    assert egress(adaptive.walk(a, lid, transport=RC))[1] == table[1]
    ARInfo.no_fallback.set(f.ar_info, 1)
    lost = adaptive.walk(a, lid, transport=RC)
    assert reason(lost) == "no route" and lost.dest == NO_PORT


@pytest.mark.stock
@pytest.mark.parametrize("pace", [False, True])
def test_messages_of_ib_send_bw_spread_evenly_over_the_uplinks(stock, pace):
    """1,600 messages over four uplinks: 400 each, and those that a late receiver makes the sender send again, of which
    each finds idle links and takes the first. The answers cross them the other way."""
    fabric, programs = Applications(TREE, *(["--pace"] if pace else [])), []
    try:
        port = next(fabric.ports)
        command = (stock("ib_send_bw"), "-n", "1600", "-F", "-s", "65536", "-N", "-p", str(port))
        before = uplinks(fabric, "leaf-2")
        programs.append(fabric.begin("host-0001", *command))
        wait_for_listener(port, programs[-1])
        programs.append(fabric.begin("host-0005", *command, "127.0.0.1"))
        output = programs[-1].communicate(timeout=240)[0]
        assert programs[-1].returncode == 0, output
        sent = uplinks(fabric, "leaf-2") - before
        messages = sent / 65536 / 1.0078
        again = max(messages.sum() - 1600, 0)
        assert messages.min() >= 396 and np.ptp(messages) <= 4 + again, messages
    finally:
        for program in programs:
            stop(program)
        fabric.close()


def uplinks(fabric: Applications, leaf: str) -> np.ndarray:
    """Bytes that the ports 5 to 8 have sent, by stock perfquery."""
    lid = re.search(rf'"{leaf}".* lid (\d+)', stdout(fabric, "ibswitches"))[1]
    shown = [stdout(fabric, "perfquery", "-x", lid, str(port)) for port in (5, 6, 7, 8)]
    return np.array([4.0 * int(re.search(r"PortXmitData:\.*(\d+)", text)[1]) for text in shown])


def stdout(fabric: Applications, *command: str) -> str:
    done = subprocess.run(fabric.on("host-0001", *command), env=fabric.env, capture_output=True, text=True, check=True)
    return done.stdout
