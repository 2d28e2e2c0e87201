"""What users give in place of a trace: one line with what would be right, in every layer."""

from __future__ import annotations

import os

import pytest

import softib
from softib.errors import InputError

PAIR = "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n"


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("trace:{}/x.goal,ranks=3", "it has 2 ranks, not 3"),
        ("{}/x.goal,ranks-per-host=2", "for a trace with options use trace:"),
        ("{}", "is a directory; a workload is a pattern"),
    ],
)
def test_a_trace_that_is_named_wrongly(tmp_path, workload, said):
    (tmp_path / "x.goal").write_text(PAIR)
    with pytest.raises(InputError, match=said):
        softib.simulate(softib.generate("fat-tree", radix=4, levels=2), workload.format(tmp_path))


@pytest.mark.parametrize("workload", ["all-to-all:1MB", "mpi-barrier,ranks=4", "latency:8"])
def test_the_loggops_layer_takes_no_pattern(workload):
    with pytest.raises(InputError, match="is not a trace; with the loggops layer, use a trace"):
        softib.replay(softib.generate("fat-tree", radix=4, levels=2), workload)


def test_ranks_that_are_the_trace_s_are_no_error_and_other_functions_name_replay(tmp_path):
    (tmp_path / "x.goal").write_text(PAIR)
    fabric = softib.generate("fat-tree", radix=4, levels=2)
    assert softib.simulate(fabric, f"trace:{os.fspath(tmp_path)}/x.goal,ranks=2").good
    assert softib.replay(fabric, f"trace:{tmp_path}/x.goal,ranks-per-host=2").messages == 1
    with pytest.raises(InputError, match=r"softib\.replay"):
        softib.simulate(fabric, str(tmp_path / "x.goal"), layer="loggops")
