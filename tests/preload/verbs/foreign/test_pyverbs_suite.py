"""rdma-core 44's own test suite under Debian's stock pyverbs, against the device: no failure, and every skip is explained."""

from __future__ import annotations

import collections

import pytest

from tests.preload.verbs.applications import A
from tests.preload.verbs.foreign.pyverbs_suite import PASSED, results_on

pytestmark = pytest.mark.stock

SKIPS = (
    ("mlx5", "tests of mlx5dv and of mlx5's private interfaces: not part of the verbs ABI"),
    ("efa", "tests of another vendor's device"),
    ("EFA", "the same"),
    ("raw", "raw Ethernet packets: the link layer is InfiniBand"),
    ("flow", "the same"),
    ("rss", "the same"),
    ("roce", "RoCE addresses: the link layer is InfiniBand"),
    ("dmabuf", "memory of a GPU: there is none"),
    ("cuda", "the same"),
    ("Cu", "the same"),
    ("huge", "where no 2 MB huge pages are allocated"),
)
"""Part of a test's name, why it may skip."""


@pytest.fixture(scope="module")
def results(apps, tmp_path_factory):
    """How each test ended."""
    return results_on(apps, A, tmp_path_factory.mktemp("suite"))


def test_nothing_fails(results):
    assert not [row for row in results if row[1] == "failed"]


def test_as_many_pass_as_can(results):
    how = collections.Counter(row[1] for row in results)
    assert how["passed"] >= PASSED and len(results) == 273, how


def test_every_skip_is_explained(results):
    unexplained = [row for row in results if row[1] == "skipped" and not any(part in row[0] for part, _ in SKIPS)]
    assert not unexplained
