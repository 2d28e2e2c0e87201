"""How long queries wait at the manager: times by hand, repetitions, queries that get no answer; and what a running fabric tells of its own."""

import numpy as np
import pytest

from softib.iba.constants import Method, MgmtClass
from softib.iba.sa import SaMethod
from softib.iba.smp import MadHeader
from softib.live.internal_sm.manager import BOUNDS_S, SaWait
from softib.mad.batch import MadBatch

MS = 10**9


def queries(tids, lid=5, method=int(Method.GET), klass=int(MgmtClass.SUBN_ADM)):
    batch = MadBatch.zeros(len(tids))
    for i, tid in enumerate(tids):
        batch.mad[i, : MadHeader.size] = MadHeader.pack(
            base_version=1, mgmt_class=klass, class_version=2, method=method, tid=tid
        )
    batch.slid[:] = batch.dlid[:] = lid
    batch.sqp[:] = batch.dqp[:] = 1
    return batch


def answers(tids, **more):
    return queries(tids, method=int(SaMethod.GET_RESP) if hasattr(SaMethod, "GET_RESP") else 0x81, **more)


def test_waits_are_from_the_first_delivery_to_the_answer():
    wait = SaWait()
    wait.came(queries([1, 2]), 0)
    wait.came(queries([1]), 40 * MS)  # asked again: it waits on
    assert wait.status(50 * MS).oldest_s == pytest.approx(0.05)
    wait.left(answers([1]), 50 * MS)
    wait.left(answers([2], lid=6), 60 * MS)  # somebody else's answer
    wait.left(answers([2]), 2000 * MS)
    told = wait.status(2000 * MS).to_json()
    assert told["sum_s"] == pytest.approx(2.05) and told["buckets"]["inf"] == 2 and told["oldest_s"] == 0
    assert (
        told["buckets"]["0.03"] == 0
        and told["buckets"]["0.1"] == 1
        and told["buckets"]["1.0"] == 1
        and told["buckets"]["3.0"] == 2
    )
    assert list(told["buckets"]) == [*map(str, BOUNDS_S), "inf"]


def test_other_classes_and_reports_of_the_manager_are_no_queries():
    wait = SaWait()
    wait.came(queries([1], klass=int(MgmtClass.SUBN_LID)), 0)
    wait.left(queries([9], method=int(SaMethod.REPORT)), 0)
    assert wait.status(0).oldest_s == 0


def test_a_query_that_is_met_with_silence_is_forgotten():
    wait = SaWait()
    wait.came(queries([1]), 0)
    assert wait.status(50 * 1000 * MS).oldest_s == 50
    assert wait.status(61 * 1000 * MS).oldest_s == 0


def test_many_answers_at_once_are_counted_once_each():
    wait, n = SaWait(), 5000
    wait.came(queries(list(range(1, n + 1))), 0)
    wait.left(answers(list(range(1, n + 1))), MS)
    assert wait.status(MS).buckets["inf"] == n and np.isclose(wait.status(MS).sum_s, n * 1e-3)
