"""``softib why`` on failed jobs of real programs. Oracle: what was planted, by a generator that knows nothing of the rules."""

from __future__ import annotations

import pytest

from softib.analysis.jobs.failure import explain_failure, window_of
from softib.diags.job_causes.site import site_of
from softib.job_logs.read import read_logs
from tests.analysis.jobs.recorded_stories import STORIES, logs_of, observations_of, pod, truth_of

SAME = {"core-cable-down": "cable-down", "core-bit-errors": "bit-errors"}


def ask(name, history=True):
    truth = truth_of(name)
    log = read_logs(logs_of(name))
    site = site_of(pod(), observations_of(name) if history else None, True)
    return truth, explain_failure(log, site, window_of(log, truth["ended"]), truth["hosts"])


@pytest.mark.parametrize("name", STORIES)
def test_the_planted_cause_is_the_first_and_at_its_place(name):
    truth, found = ask(name)
    first = found.causes[0]
    assert first.code == SAME.get(truth["cause"], truth["cause"]), found.text_lines()
    if truth["where"] and first.where:
        where = first.where[0].where
        assert truth["where"] in where or where == truth["where"].partition("[")[0]


@pytest.mark.parametrize("name", STORIES)
def test_no_wrong_cause_is_sure_where_the_history_is_absent(name):
    truth, found = ask(name, history=False)
    first = found.causes[0]
    assert first.code == SAME.get(truth["cause"], truth["cause"]) or first.probability < 0.8, found.text_lines()
    assert any("no history" in note for note in found.notes)
