"""The SLs of paths of a running fabric, asked of its subnet administration: pair by pair, and source by source."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.errors import InputError
from softib.fabric.end_ports import end_ports
from softib.iba.sa import PathRecord
from softib.live import instances
from softib.live.sa_client import NO_RECORD, SaTables, manager_of, pair_sls
from softib.live.shared_fabric import SharedFabric
from tests.scratch import scratch

FABRIC = """
topology: {kind: fat-tree, m: [4, 4], w: [1, 4], p: [1, 1]}
sm: {partitions: partitions.conf}
"""
PARTITIONS = "Default=0x7fff,ipoib,sl=3:ALL=limited,SELF=full;\n"


@pytest.fixture(scope="module")
def fabric(tmp_path_factory):
    folder, patch, home = tmp_path_factory.mktemp("stated"), pytest.MonkeyPatch(), scratch("stated-")
    home.chmod(0o700)
    patch.setenv("XDG_RUNTIME_DIR", str(home))
    (folder / "partitions.conf").write_text(PARTITIONS)
    (folder / "fabric.yaml").write_text(FABRIC)
    with softib.up(str(folder / "fabric.yaml"), name="stated") as running:
        yield running
    patch.undo()


def test_some_pairs_and_all_of_them_say_the_same(fabric, monkeypatch):
    """Gets of few pairs, tables of many: SL 3 of the partition, and nothing between two limited members (IBA 10.9.3)."""
    instance = instances.find("stated")
    at_rest = SharedFabric.snapshot(instance.shared_fabric)
    lid = at_rest.lid[end_ports(at_rest)][:16].astype(np.int64)
    all_pairs = pair_sls(instance, np.repeat(lid, 16), np.tile(lid, 16)).reshape(16, 16)
    monkeypatch.setattr("softib.live.sa_client.RECORDS_A_QUERY", 0)  # a Get for each
    pairs = np.array([[0, 1, 5, 15, 3], [5, 5, 0, 2, 4]])
    assert pair_sls(instance, *lid[pairs]).tolist() == all_pairs[tuple(pairs)].tolist()
    assert set(np.unique(all_pairs)) == {NO_RECORD, 3}
    apart = ~np.eye(16, dtype=bool)
    assert (all_pairs[apart] == NO_RECORD).sum() == 15 * 14 and (all_pairs[apart] == 3).sum() == 2 * 15


def test_a_table_of_one_record_has_one(fabric):
    """What is behind PayloadLength in a segment is no record (IBA 13.6.2.3)."""
    instance = instances.find("stated")
    attached, (lid, sl) = manager_of(instance)
    with SaTables(attached, lid, sl) as sa:
        answers = dict(sa.tables(PathRecord, [{"slid": lid, "dlid": lid}]))
    assert len(answers[0]) == 1


def test_a_simulation_of_a_running_fabric_refuses_what_shares_no_partition(fabric):
    with pytest.raises(InputError, match="share no partition"):
        softib.simulate("stated", "shift:64KB")
