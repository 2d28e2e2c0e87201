"""A Get(PathRecord) that comes alone is answered by numbers instead of columns: octet for octet the same."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import MgmtClass
from softib.iba.sa import SA_DATA, PathRecord, SaHeader, SaMethod, mask_of
from softib.mad.batch import MadBatch
from softib.sm.managers.partitions import parse_partitions
from tests.sm.sa.asking import PREFIX, Asked

SITE_LOCAL = 0xFEC0000000000001
SETTINGS = {
    "plain": {},
    "prefix": {"subnet_prefix": SITE_LOCAL},
    "two LIDs": {"lmc": 1},
    "partitions": {
        "partitions": tuple(
            parse_partitions("Default=0x7fff : ALL=limited, SELF=full ;\nb=0x10, sl=3 : ALL_CAS=full ;", "p")
        )
    },
    "broken": {},
    "engine's SLs": {},
}
BITS = ("sgid", "dgid", "slid", "dlid", "pkey", "numb_path", "reversible", "sl", "mtu", "hop_limit")
OFTEN = (0.7, 0.7, 0.4, 0.4, 0.3, 0.5, 0.5, 0.05, 0.05, 0.05)


def lone(a: Asked, rng: np.random.Generator) -> MadBatch:
    """A question that is mostly right, and sometimes wrong in one thing or another."""
    subnet = a.sm.sa_manager.subnet
    assert subnet is not None
    ends = rng.integers(0, len(subnet), 2)
    prefix = subnet.config.subnet_prefix

    def gid(end: int) -> list[int]:
        here = (prefix, PREFIX, 0x1234)[rng.choice(3, p=[0.8, 0.15, 0.05])]
        return [here, int(subnet.end_guid[end]) if rng.random() < 0.95 else int(rng.integers(0, 5))]

    def lid(end: int) -> int:
        return int(subnet.end_lid[end]) if rng.random() < 0.95 else int(rng.integers(0, 1 << 16))

    said = PathRecord.pack(
        sgid=np.array(gid(ends[0]), np.uint64),
        dgid=np.array(gid(ends[1]), np.uint64),
        slid=lid(ends[0]),
        dlid=lid(ends[1]),
        pkey=int(rng.choice([0x7FFF, 0xFFFF, 0x10, 0x8010, 0x11])),
        numb_path=int(rng.integers(0, 128)),
        reversible=int(rng.integers(0, 2)),
        sl=int(rng.integers(0, 4)),
        mtu=4,
        hop_limit=1,
    )
    mask = mask_of(PathRecord, *[name for name, p in zip(BITS, OFTEN, strict=True) if rng.random() < p])
    batch = MadBatch.zeros(1)
    batch.mad[0] = rng.integers(0, 256, 256)
    method = int(SaMethod.GET if rng.random() < 0.95 else SaMethod.GET_TABLE)
    batch.mad[0, :SA_DATA] = SaHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_ADM),
        class_version=2,
        method=method,
        attr_id=0x35,
        attr_mod=7,
        tid=int(rng.integers(1 << 40)),
        sm_key=int(rng.choice([0, 1, 9], p=[0.7, 0.25, 0.05])),
        comp_mask=mask,
    )
    batch.mad[0, SA_DATA : SA_DATA + 64] = said
    batch.slid[:], batch.dlid[:], batch.sqp[:], batch.dqp[:], batch.sl[:] = (
        subnet.end_lid[ends[0]],
        a.lid(a.port),
        1,
        1,
        rng.integers(0, 16),
    )
    return batch


def told(batch: MadBatch) -> list:
    columns = (batch.dlid, batch.slid, batch.dqp, batch.sqp, batch.sl, batch.pkey_index, batch.tid, batch.status)
    return [batch.mad.tobytes(), *[c.tolist() for c in columns], [c.dtype for c in columns], batch.payload]


@pytest.mark.parametrize("kind", SETTINGS)
def test_it_is_the_columns_answer(kind):
    a = Asked(generate("fat-tree", radix=4, levels=2), **SETTINGS[kind])
    sa_manager, rng = a.sm.sa_manager, np.random.default_rng(len(kind))
    sa, subnet = sa_manager.sa, sa_manager.subnet
    assert subnet is not None and sa.one_path is not None
    if kind == "broken":  # entries that lead nowhere, elsewhere, out of the switch, or round in a circle
        lft = subnet.routing.lft
        where = rng.random(lft.shape) < 0.3
        lft[where] = rng.choice([0, 1, 2, 3, 4, 5, 255], int(where.sum()))
        sa.refresh(subnet, sa.members)
    if kind == "engine's SLs":
        shape = subnet.graph.n_switches, len(subnet.graph.end_lid)
        subnet.routing.path_sl = rng.integers(0, 16, shape).astype(np.uint8)
    by_numbers, answered, quick = sa.one_path, 0, 0
    for _ in range(400):
        asked = lone(a, rng)
        before = asked.mad.copy()
        sa.one_path = by_numbers
        alone = by_numbers.reply(asked, sa.sa_key)
        whole = told(sa.answer(asked, 0))
        sa.one_path = None
        columns = sa.answer(asked, 0)
        assert whole == told(columns), asked.mad.tobytes().hex()
        assert (asked.mad == before).all()
        quick += alone is not None
        answered += len(columns) and not SaHeader.status.get(columns.mad).any()
    assert answered > 50
    assert quick and (kind not in ("plain", "engine's SLs") or quick > answered * 0.7), (quick, answered)
