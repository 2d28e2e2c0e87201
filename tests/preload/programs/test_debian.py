"""Libraries of Debian that have no program of their own for this, each called by a small one of ``nodes``."""

from __future__ import annotations

import pytest

from tests.preload.programs.trial import CHECKED
from tests.preload.verbs.applications import A, B

pytestmark = [pytest.mark.stock, pytest.mark.slow]


def test_gloo_reduces_by_its_ibverbs_transport(trial):
    program = trial.compiled("gloo_allreduce.cc", "-lgloo", "-libverbs")
    trial.compare(*([program, rank, str(trial.folder)] for rank in "01"))


def test_librpma_writes_flushes_and_reads(trial):
    """Over rdma_cm; the client asks again until the server listens."""
    program, port, before = trial.compiled("rpma.c", "-lrpma", "-libverbs"), str(next(trial.apps.ports)), trial.sent()
    address = trial.apps.address(A)
    output = "\n".join(
        trial.apps.pair([program, "server", address, port], [program, "client", address, port], nodes=(A, B))
    )
    trial.count(sum(map(int, CHECKED.findall(output))), before)
