"""Against measurements, as a user asks: nccl-tests on seven clusters with the machine described in one line (bench/validation/nccl.py has the assumptions)."""

from __future__ import annotations

import numpy as np
import pytest

nccl = pytest.importorskip("bench.validation.nccl", reason="bench/ is not beside the tests")
leave_out = pytest.importorskip("bench.validation.leave_out", reason="bench/ is not beside the tests")


@pytest.fixture(scope="module")
def rows(shared_data):
    found = nccl.rows(only=[s.name for s in nccl.sets() if s.held])
    if not found:
        pytest.skip("shared/reference/measured.csv is absent")
    return found


def mean(rows) -> float:
    return float(np.mean([abs(r.error) for r in rows]))


def test_described_machines_are_within_ten_percent(rows) -> None:
    assert len(rows) == 115
    assert mean(rows) <= 0.10
    assert all(abs(r.error) <= 0.05 for r in rows if r.size >= 1 << 28)


def test_what_contains_nccl_s_model_is_better_than_it(rows) -> None:
    """In each class of sizes, also with the 12 us that the model lacks of a launch."""
    sets = {s.name: s for s in nccl.sets() if s.held}
    own = [nccl.baselines(sets[r.dataset], nccl.Collective.ALL_REDUCE, r.size)[1] + 12 for r in rows]
    for least, most in ((0, 1 << 15), (1 << 15, 1 << 20), (1 << 20, 1 << 26), (1 << 26, 1 << 60)):
        here = [(r, o) for r, o in zip(rows, own, strict=True) if least < r.size <= most]
        assert mean([r for r, _ in here]) < np.mean([abs(o / r.measured - 1) for r, o in here])


@pytest.mark.slow
def test_machines_left_out_are_within_twelve_percent(shared_data) -> None:
    """Everything is fitted again without them; the constant beside NCCL's own model, too."""
    left = leave_out.nccl_without()
    if not left:
        pytest.skip("shared/reference/measured.csv is absent")
    own = lambda rows: float(np.mean([abs(r.baselines[0] / r.measured - 1) for r in rows]))
    assert mean(left) <= 0.12
    for least, most in ((0, 1 << 15), (1 << 15, 1 << 20), (1 << 20, 1 << 26), (1 << 26, 1 << 60)):
        here = [r for r in left if least < r.size <= most]
        assert mean(here) < own(here)
