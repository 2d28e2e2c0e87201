"""Fabrics that exist: every law after bring-up, on files of real sites and of stock tools."""

from __future__ import annotations

import pytest

from softib.fabric.formats.registry import read
from softib.scenario.bring_up import bring_up
from tests.scenario.laws import check

FILES = [
    ("ibsim-net/net.2sw2path4hca2port", "minhop"),  # dual-port CAs
    ("hk-creditloop/ibnetdiscover_manually_created.txt", "updn"),  # a ring with SHARP nodes
    ("hk-examples/Topo.3.txt", "minhop"),  # 19 loop-back cables
    ("ibutils-clusters/subnet.lst", "minhop"),
    ("psmn-x5/X5.topofile", "updn"),
    ("ufm-selene-storage/selene.storage.txt", "ftree"),  # 1,407 nodes
    ("sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.lst", "minhop"),
]


@pytest.mark.parametrize(("file", "engine"), FILES)
def test_laws_hold(shared_data, file, engine):
    fabric = read(shared_data / file).fabric
    b = bring_up(fabric, engine)
    assert not b.report.problems
    check(fabric, int(fabric.port_node[b.port]))
    assert b.sweep().sets == 0
