"""Two running subnets, each with a manager as a process of its own, are cabled together while ``ib_write_bw`` transfers in the winner's: no Set reaches
a device of the winner before the lower one has handed over (IBA C14-60.2.1; tshark reads every MAD), and the transfer goes on."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from softib.fabric.node_finder import find_node
from tests.iba.dissected import columns
from tests.live.umad_sm.lab import fabric_of, is_up
from tests.live.umad_sm.managers import wait

HALVES = "".join(
    f'Switch 8 "leaf-{x}"\n'
    + "".join(f'[{i}] "{x}{i}"[1]\n' for i in (1, 2, 3, 4))
    + f'[8] "leaf-{y}"[8]\n\n'
    + "".join(f'Hca 1 "{x}{i}"\n[1] "leaf-{x}"[{i}]\n\n' for i in (1, 2, 3, 4))
    for x, y in ("ab", "ba")
)
SM_INFO, SWITCH_INFO, SET = 0x20, 0x12, 2


def start(s, stock, program: str, node: str, priority: int) -> None:
    """A manager on ``node`` that sweeps when traps call for it, and every two seconds."""
    words = ["sm", "run", "--priority", str(priority), "--sweep", "2", "--guid2lid", f"lids-{node}"]
    command = [sys.executable, "-m", "softib.cli.main", *words]
    if program == "opensm":
        command = [stock("opensm"), "-p", str(priority), "-s", "2", "-f", f"osm-{node}.log"]
    env = {**s.env, "OSM_CACHE_DIR": str(s.folder / f"cache-{node}"), "OSM_TMP_DIR": str(s.folder)}
    (s.folder / f"cache-{node}").mkdir()
    with (s.folder / f"stderr-{node}").open("a") as err:
        s.started.append(
            subprocess.Popen(
                s.words("run", "--node", node, "--", *command),
                env=env,
                cwd=s.folder,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )
        )


def sets(s) -> list[int]:
    """Attributes of every SMP with method Set so far; -1 for a handover."""
    fields = ("mgmtclass", "method", "attributeid", "attributemodifier")
    rows = columns(s.folder / "all.pcap", *(f"infiniband.mad.{name}" for name in fields))
    smps = [[int(x, 0) for x in r[1:]] for r in rows if r[0] and int(r[0], 0) in (0x01, 0x81)]
    return [-1 if (attr, modifier) == (SM_INFO, 1) else attr for method, attr, modifier in smps if method == SET]


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("winner", "loser"), [("softib", "softib"), ("opensm", "softib"), ("softib", "opensm")])
def test_a_transfer_of_the_winners_subnet_goes_on(softib, stock, winner, loser):
    bandwidth = stock("ib_write_bw")
    (softib.folder / "halves.net").write_text(HALVES)
    softib("up", "halves.net", "--sm", "external", "--pcap", "all.pcap", "--detach")
    softib("fault", "link-down", "leaf-a[8]")
    start(softib, stock, loser, "b1", 1)
    start(softib, stock, winner, "a1", 9)
    assert wait(
        lambda: is_up(fabric_of(softib)) and (fabric_of(softib).lid[fabric_of(softib).end_ports()] > 0).all(), 60
    )
    f = fabric_of(softib)
    ours = [f.port(find_node(f, f"a{i}"), 1) for i in (1, 2, 3, 4)] + [f.port(find_node(f, "leaf-a"), 0)]
    lids = f.lid[ours].copy()
    assert len(set(f.lid[f.end_ports()].tolist())) < len(f.end_ports()), "LIDs clash"
    pair = [
        (bandwidth, "-D", "12", "-F", "-s", "4096", "-p", "18611"),
        (bandwidth, "-D", "12", "-F", "-s", "4096", "-p", "18611", "127.0.0.1"),
    ]
    ends = []
    for node, command in zip(("a2", "a3"), pair, strict=True):
        ends.append(
            subprocess.Popen(
                softib.words("run", "--node", node, "--", *command),
                env=softib.env,
                cwd=softib.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        softib.started.append(ends[-1])
        time.sleep(2)
    before = len(sets(softib))
    softib("fault", "link-up", "leaf-a[8]")
    assert wait(lambda: -1 in sets(softib)[before:], 30), "nobody handed over"
    later = sets(softib)[before:]
    assert set(later[: later.index(-1)]) <= {SWITCH_INFO}
    merged = lambda f: is_up(f) and len(set(f.lid[f.end_ports()].tolist())) == len(f.end_ports())
    assert wait(lambda: merged(fabric_of(softib)), 60)
    assert (fabric_of(softib).lid[ours] == lids).all(), "the winner's own LIDs"
    said = [end.communicate(timeout=60)[0] for end in ends]
    assert [end.returncode for end in ends] == [0, 0], said
