"""A rack that is warmer than the others, below every alarm. Oracle: what is planted, and a real cluster of which nobody complained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.diags.cable_rules.judge import judge
from softib.diags.observations import Observations
from softib.fabric.topologies.registry import generate
from softib.monitor.fabric_ports import ports_of, rows_of
from tests.conftest import find_shared_data
from tests.diags.cable_rules.real import dump

DUMP = (find_shared_data() or Path("absent")) / "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"


def judged(warmer, seed=1, radix=8):
    """Temperatures of the modules of ``radix`` racks of a tree, 42 to 48 °C, those of leaf-3 and its hosts by ``warmer``."""
    f = generate("fat-tree", radix=radix, levels=2, generation="NDR")
    p = ports_of(f, rows_of(f))
    t = 42 + 6 * np.random.default_rng(seed).random(len(p))
    leaf = np.array([n == "leaf-3" for n in p.node])
    t[leaf | leaf[p.peer]] += warmer
    hour = 3600 * 10**9
    return [
        finding
        for finding in judge(
            Observations(
                p,
                np.zeros((1, len(p)), np.int64),
                np.full((1, len(p)), hour),
                {"symbol_error_counter": np.zeros((1, len(p)), np.uint64)},
                {"symbol_error_counter": np.ones((1, len(p)), bool)},
                {"module_temperature_c": t[None, :]},
            )
        )
        if finding.code in ("warm-rack", "hot-module", "hot-modules")
    ]


def test_a_warm_rack_is_one_information():
    (one,) = judged(14.0)
    assert one.code == "warm-rack" and str(one.where[0]) == "leaf-3" and one.severity == 0
    assert (
        one.evidence["modules"] == 8 and 57 < one.evidence["temperature_c"] < 62 and 43 < one.evidence["usual_c"] < 47
    )


@pytest.mark.parametrize("seed", range(20))
def test_racks_that_differ_a_little_are_none(seed):
    assert judged(4.0, seed) == []


def test_hot_modules_are_not_named_twice():
    assert "warm-rack" not in {f.code for f in judged(30.0)}


@pytest.mark.skipif(not DUMP.exists(), reason="the real files are not here")
@pytest.mark.filterwarnings("ignore:.*sections that softib does not read")
def test_no_rack_of_a_real_cluster_is_named():
    assert "warm-rack" not in {f.code for f in judge(dump(DUMP, "PM_INFO", 86400.0))}
