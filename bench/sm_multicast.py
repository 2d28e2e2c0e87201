"""How soon multicast groups are back when a cable that their trees take is pulled: Sets of multicast tables, MADs and time.

    python bench/sm_multicast.py [--radix 24 36] [--engine ftree,updn] [--groups 64] [--members 32]

In process, on three-level fat trees, as bench/sm_incremental.py. The cable is one that the most groups take. ``moved``: groups whose trees are others then.
The time is processor time (the machine is shared), from the fault until the manager rests.
"""

from __future__ import annotations

import argparse

import numpy as np

from bench.sm_incremental import Running
from softib.iba.constants import LID_MCAST_MIN
from softib.iba.sa import JoinState
from softib.sm.managers.mcast_mgr import Member

SEED = 14


def join(running: Running, groups: int, members: int) -> dict[int, list[int]]:
    """MLID → member ports of new groups, programmed."""
    rng, f = np.random.default_rng(SEED), running.fabric
    mcast = running.manager.sm.sa_manager.groups
    hosts = np.flatnonzero(f.linked & ~f.is_switch[f.port_node])
    made = {}
    for i in range(groups):
        mgid = bytes((0xFF, 0x12, 0x40, 0x01)) + bytes(8) + (0x1000 + i).to_bytes(4, "big")
        group = mcast.add(mgid, 1000)
        assert group is not None
        ports = rng.choice(hosts, members, replace=False)
        group.members.update({int(guid): Member(int(JoinState.FULL)) for guid in f.port_guid[ports]})
        mcast.changed.add(group.mlid)
        made[group.mlid] = ports.tolist()
    running.rest()
    return made


def measure(radix: int, engine: str, groups: int, members: int) -> None:
    """Print rows of a table."""
    running = Running(radix, engine)
    running.rest()
    f = running.fabric
    mlids = np.array(sorted(join(running, groups, members)))
    switch_port = f.linked & f.is_switch[f.port_node]
    inner = np.flatnonzero(switch_port & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]])
    masks = f.mft[
        f.switch_of_node[f.port_node[inner]][:, None], mlids - LID_MCAST_MIN, (f.port_num[inner] >> 4)[:, None]
    ]
    takes = (masks >> (f.port_num[inner] & 15)[:, None]) & 1
    busy = inner[np.argmax(takes.sum(axis=1))]
    hosts = f.node_type[f.port_node] == 1
    print(
        f"{engine}, {int((f.linked & hosts).sum()):,} hosts, {groups} groups of {members}; {int(takes.sum(axis=1).max())} take the cable"
    )
    for up in (False, True):
        before = f.mft[:, mlids - LID_MCAST_MIN].copy()
        running.links(np.array([busy]), up)
        sent, _, took = running.rest()
        sets = running.manager.sm.report.mads.get("Set MFT", 0)
        moved = int((before != f.mft[:, mlids - LID_MCAST_MIN]).any(axis=(0, 2)).sum())
        print(f"| {'plugged back' if up else 'pulled'} | {moved} | {sets} | {sent:,} | {took:.2f} s |")


def main() -> None:
    """Arguments."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--radix", type=int, nargs="+", default=[24, 36])
    arguments.add_argument("--engine", nargs="+", default=["minhop", "ftree,updn"])
    arguments.add_argument("--groups", type=int, default=64)
    arguments.add_argument("--members", type=int, default=32)
    given = arguments.parse_args()
    for engine in given.engine:
        for radix in given.radix:
            measure(radix, engine, given.groups, given.members)


if __name__ == "__main__":
    main()
