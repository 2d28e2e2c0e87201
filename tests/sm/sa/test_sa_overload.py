"""Ten thousand hosts ask at once: everybody is answered, in a time that depends on how many ask and not on how much one of them does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.iba.constants import MadStatus
from softib.iba.sa import SA_DATA, SaHeader, SaMethod, mask_of
from softib.mad.batch import MadBatch
from softib.sm.sa.fair_queue import MOST_OF_ONE, FairQueue
from softib.sm.sa_manager import BUDGET
from tests.sm.sa.asking import Asked, hosts

HOSTS = 10_000


def questions(lids: np.ndarray, method: SaMethod = SaMethod.GET, first_tid: int = 1, attr: int = 0x35) -> MadBatch:
    """One question of each LID, each with another TransactionID."""
    batch = MadBatch.zeros(len(lids))
    head = SaHeader.pack(base_version=1, mgmt_class=3, class_version=2, method=int(method), attr_id=attr)
    batch.mad[:, : len(head)] = head
    batch.slid[:], batch.dlid[:], batch.dqp[:], batch.sqp[:] = lids, 1, 1, 1
    batch.tid[:] = np.arange(first_tid, first_tid + len(lids))
    SaHeader.tid.set(batch.mad, batch.tid)
    return batch


def drain(queue: FairQueue, budget: float = BUDGET) -> list[MadBatch]:
    rounds = []
    while len(queue):
        rounds.append(queue.take(budget))
    return rounds


def test_everybody_once_while_one_floods():
    """Nobody waits behind the flood: each of 10,000 has its answer when as much as one question of each has been answered."""
    queue = FairQueue()
    flood = questions(np.full(5_000, 20_000), first_tid=1)
    refused = queue.put(flood)
    assert refused is not None and len(refused) == 5_000 - MOST_OF_ONE, "the flood finds no room, the others do"
    assert queue.put(questions(np.arange(1, HOSTS + 1), first_tid=9_000)) is None
    rounds = drain(queue)
    served = np.concatenate([r.slid for r in rounds])
    assert len(served) == HOSTS + MOST_OF_ONE
    place = {lid: i for i, lid in reversed(list(enumerate(served.tolist())))}
    assert max(place[lid] for lid in range(1, HOSTS + 1)) <= HOSTS + 1, (
        "one of each, and the flood's first, before its second"
    )
    assert len(rounds) == -(-(HOSTS + MOST_OF_ONE) // int(BUDGET))


def test_shares_are_equal_by_cost():
    """Half ask for tables that cost 33 as much as a path, all without an end: each gets the same work done (Jain's index >= 0.99)."""
    queue, done, tid = FairQueue(), Counter(), 1
    for _ in range(40):
        queue.learned(0x35, 2048)
    lids = np.arange(1, 41)
    for _ in range(600):
        for method, some in ((SaMethod.GET, lids[:20]), (SaMethod.GET_TABLE, lids[20:])):
            for _ in range(8 if method == SaMethod.GET else 1):
                queue.put(questions(some, method, tid))
                tid += 40
        for mad, lid in ((m, int(s)) for r in [queue.take(BUDGET / 4)] for m, s in zip(r.mad, r.slid, strict=True)):
            done[lid] += 33 if mad[3] == SaMethod.GET_TABLE else 1
    work = np.array([done[i] for i in lids.tolist()][20:] + [done[i] for i in lids.tolist()][:20], float)
    tables, paths = work[:20], work[20:]
    assert tables.sum() ** 2 / (20 * (tables**2).sum()) >= 0.99 and paths.sum() ** 2 / (20 * (paths**2).sum()) >= 0.99
    assert paths.min() > 0.9 * min(tables.min(), 600 * 8), "who asks for little loses nothing to who asks for much"


def test_bounds_hold_whatever_comes():
    queue = FairQueue(most_of_one=4, most=100)
    for i in range(200):
        queue.put(questions(np.arange(1, 51), first_tid=1 + 50 * i))
        assert len(queue) <= 150
    queue.put(questions(np.array([77]), first_tid=90_000))
    seen = np.concatenate([r.slid for r in drain(queue)])
    assert 77 in seen, "who has nothing waiting gets in, however full it is"


def test_a_repetition_waits_once():
    queue = FairQueue()
    one = questions(np.array([5, 6]))
    queue.put(one)
    queue.put(one)
    assert len(queue) == 2 and len(drain(queue)[0]) == 2 and not len(queue)


@pytest.fixture(scope="module")
def net() -> Asked:
    return Asked(generate("fat-tree", radix=8, levels=3))


def test_the_manager_answers_all_and_says_busy_to_the_flood(net):
    """128 hosts ask 20 paths each in one batch, and one of them 3,000: every host has its 20 right answers; the flood gets some, and BUSY."""
    rows = hosts(net)
    lids = np.array([net.lid(int(p)) for p in rows])
    target = np.roll(lids, 1)
    mine = questions(np.repeat(lids[1:], 20), first_tid=10_000)
    flood = questions(np.full(3_000, lids[0]), first_tid=1)
    batch = MadBatch.concat([flood, mine])
    query = sa.PathRecord.pack(
        slid=batch.slid, dlid=np.concatenate([np.full(3_000, target[0]), np.repeat(target[1:], 20)])
    )
    batch.mad[:, SA_DATA : SA_DATA + 64] = query
    SaHeader.comp_mask.set(batch.mad, np.full(len(batch), mask_of(sa.PathRecord, "slid", "dlid"), np.uint64))
    reply = net.run(batch)
    status = SaHeader.status.get(reply.mad)
    flooded = reply.dlid == lids[0]
    assert len(reply) == len(batch), "nobody is left without a word"
    assert (status[~flooded] == 0).all()
    found = reply.mad[~flooded, SA_DATA : SA_DATA + 64]
    wanted = dict(zip(lids.tolist(), target.tolist(), strict=True))
    assert [wanted[s] for s in sa.PathRecord.slid.get(found).tolist()] == sa.PathRecord.dlid.get(found).tolist()
    assert set(status[flooded].tolist()) == {0, int(MadStatus.BUSY)} and (status[flooded] == 0).sum() == MOST_OF_ONE
