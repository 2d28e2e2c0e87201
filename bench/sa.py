"""Time of SA answers on a large tree: PathRecords in a batch, one at a time, and whole tables.

    python bench/sa.py [RADIX HOSTS]        # default: 36 11664
    python bench/sa.py engines              # engines that give paths SLs, on a torus of 125 switches and 500 hosts

Prints CPU time per answer; the subnet is brought up in process first.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from softib.fabric.topologies.registry import generate
from softib.iba.constants import MgmtClass
from softib.iba.sa import SA_DATA, PathRecord, SaAttr, SaHeader, SaMethod, mask_of
from softib.mad.batch import MadBatch
from softib.scenario.bring_up import bring_up
from softib.sm.sa_manager import SaManager

PATHS = 4096


def requests(method: SaMethod, attr: SaAttr, n: int, comp_mask: int = 0) -> MadBatch:
    """``n`` requests as they arrive at the administrator."""
    batch = MadBatch.zeros(n)
    batch.mad[:, :SA_DATA] = SaHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_ADM),
        class_version=2,
        method=int(method),
        attr_id=int(attr),
        comp_mask=comp_mask,
    )
    batch.slid[:], batch.dlid[:], batch.dqp[:], batch.sqp[:] = 1, 1, 1, 1
    return batch


def timed(what: str, function, each: int = 1) -> None:
    """Best of five, in CPU time."""
    best = min(_cpu(function) for _ in range(5))
    print(f"{what:<52}{best * 1e3:10.2f} ms{best / each * 1e6:12.2f} us each")


def _cpu(function) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def main() -> None:
    """The figures of docs/evidence/subnet-manager.md."""
    if sys.argv[1:] == ["engines"]:
        for engine in ("minhop", "lash", "dfsssp", "nue"):
            print(f"torus 5 x 5 x 5, 500 hosts, {engine}")
            up = bring_up(generate("torus", dims=[5, 5, 5], hosts_per_switch=4), engine=engine)
            paths(up.sm.sa_manager)
        return
    radix, hosts = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (36, 11664)
    up = bring_up(generate("fat-tree", radix=radix, hosts=hosts))
    manager = up.sm.sa_manager
    paths(manager)
    for attr in (SaAttr.NODE_RECORD, SaAttr.PORT_INFO_RECORD, SaAttr.LINK_RECORD, SaAttr.LFT_RECORD):
        ask = requests(SaMethod.GET_TABLE, attr, 1)
        begin = time.process_time()
        told = manager.sa.answer(ask, 0)
        first = time.process_time() - begin
        octets = len((told.payload or {}).get(0, b""))
        print(f"{attr.name}, first time: {first * 1e3:.1f} ms, {octets / 2**20:.2f} MiB")
        timed(f"{attr.name}, whole table again", lambda ask=ask: manager.sa.answer(ask, 0))


def paths(manager: SaManager) -> None:
    """PathRecords: by columns, through the fair queue, one alone."""
    assert manager.subnet is not None
    ends = manager.subnet.end_guid
    hosts_only = ends[manager.subnet.db.port_num[manager.subnet.end_port] > 0]
    rng = np.random.default_rng(1)
    prefix = np.full(PATHS, manager.config.subnet_prefix, np.uint64)
    asked = requests(SaMethod.GET, SaAttr.PATH_RECORD, PATHS, mask_of(PathRecord, "sgid", "dgid"))
    q = PathRecord.pack(
        sgid=np.stack([prefix, rng.choice(hosts_only, PATHS)], 1),
        dgid=np.stack([prefix, rng.choice(hosts_only, PATHS)], 1),
    )
    asked.mad[:, SA_DATA : SA_DATA + 64] = q
    answers = manager.sa.answer(asked, 0)
    assert not SaHeader.status.get(answers.mad).any()
    timed(f"PathRecord by GIDs, batch of {PATHS}", lambda: manager.sa.answer(asked, 0), PATHS)
    asked.tid[:] = np.arange(1, PATHS + 1)
    asked.slid[:] = rng.choice(manager.subnet.end_lid, PATHS)

    def queued() -> None:
        manager.answer(asked, 0)
        while len(manager.queue):
            manager.send(0)

    timed(f"the same through the fair queue, {PATHS} requesters", queued, PATHS)
    one = asked[:1]
    timed("PathRecord by GIDs, one at a time (100)", lambda: [manager.answer(one, 0) for _ in range(100)], 100)


if __name__ == "__main__":
    main()
