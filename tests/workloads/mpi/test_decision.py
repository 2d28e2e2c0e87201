"""The rules by which Open MPI chooses: points that its documentation and measurements of others show."""

from __future__ import annotations

import pytest

from softib.errors import UnknownName
from softib.workloads.mpi.collective import ALGORITHMS
from softib.workloads.mpi.decision import COLLECTIVES, VERSIONS, choose


def test_allreduce_of_4_0_changes_at_10000_octets():
    """The cliff between 8 and 16 KB in the measurements of ABCI (Open MPI 4.0.5)."""
    for ranks in (4, 8, 16, 32, 64):
        assert choose("allreduce", 8192, ranks, "4.0").algorithm == "recursive-doubling"
        assert choose("allreduce", 16384, ranks, "4.0").algorithm == "ring"
    assert choose("allreduce", 4 << 20, 4, "4.0").algorithm == "ring"
    assert choose("allreduce", 8 << 20, 4, "4.0").algorithm == "segmented-ring"
    assert choose("allreduce", 10_240, 5000, "4.0").algorithm == "nonoverlapping"


def test_allreduce_of_4_1():
    """coll_tuned_decision_fixed.c of 4.1.6: 8 to 15 ranks change at 8 KiB, 64 to 127 at 256 KiB."""
    assert choose("allreduce", 8191, 8).algorithm == "recursive-doubling"
    assert choose("allreduce", 8192, 8).algorithm == "rabenseifner"
    assert choose("allreduce", 262_143, 64).algorithm == "recursive-doubling"
    assert choose("allreduce", 262_144, 127).algorithm == "rabenseifner"
    assert choose("allreduce", 1, 10_000).algorithm == "nonoverlapping"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_choice_is_an_algorithm_that_is_there(version, collective):
    for ranks in (2, 3, 4, 7, 8, 15, 16, 31, 33, 64, 130, 300, 700, 1500, 3000, 9000):
        for power in range(25):
            assert choose(collective, 1 << power, ranks, version).algorithm in ALGORITHMS[collective]


def test_an_unknown_version_is_named():
    with pytest.raises(UnknownName, match=r"no version of Open MPI named '3\.1'; did you mean|known"):
        choose("allreduce", 8, 8, "3.1")


def test_a_collective_made_of_others_takes_the_same_version():
    """Of 4.0 a reduce and a broadcast of 12 ranks' 12 KB go by other algorithms than of 4.1, so their octets differ or their steps do."""
    from softib.workloads.mpi.collective import program_of
    from softib.workloads.mpi.cost import costs_of

    old, new = (
        len(
            program_of("allreduce", 12_288, 12, costs_of("default"), algorithm="nonoverlapping", version=v)[0].schedule(
                "x"
            )
        )
        for v in ("4.0", "4.1")
    )
    assert old > new, "4.0 sends in segments of 1 KiB"
