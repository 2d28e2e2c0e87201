"""Libraries of Debian that have no program of their own for this, each called by a small one of ``nodes``."""

from __future__ import annotations

import pytest

from tests.preload.verbs.applications import A, B, ended, stop
from tests.preload.verbs.foreign.trial import CHECKED

pytestmark = [pytest.mark.stock, pytest.mark.slow]


def test_gloo_reduces_by_its_ibverbs_transport(trial):
    program = trial.compiled("gloo_allreduce.cc", "-lgloo", "-libverbs")
    trial.compare(*([program, rank, str(trial.folder)] for rank in "01"))


def test_librpma_writes_flushes_and_reads(trial):
    """Over rdma_cm, to a server that listens."""
    program, port, before = trial.compiled("rpma.c", "-lrpma", "-libverbs"), str(next(trial.apps.ports)), trial.sent()
    words = [trial.apps.address(A), port]
    server = trial.apps.begin(A, program, "server", *words)
    try:
        assert server.stdout.readline() == "listening\n"
        output = "\n".join(ended(server, trial.apps.begin(B, program, "client", *words), 150))
    finally:
        stop(server)
    checked = [int(size) for size in CHECKED.findall(output)]
    assert len(checked) == 2, output
    trial.count(sum(checked), before)
