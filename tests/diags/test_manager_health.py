"""A manager that hangs beside a network that does, told by what rounds of datagrams showed; and nothing said of what is well or too short."""

import math

import pytest

from softib.diags.managers.manager_health import ManagerRound, manager_findings

WELL = {
    "time_ns": 0,
    "guid": 7,
    "lid": 3,
    "state": "MASTER",
    "answered": True,
    "port_answered": True,
    "sa_answered": True,
    "sm_answer_s": 0.001,
    "sa_answer_s": 0.001,
    "act_count": 5,
    "still_s": 0.0,
    "agents": 100,
    "agents_silent": 0,
    "sa_wait_s": math.nan,
    "node": "sm-host HCA-1",
}
SILENT = {"answered": False, "sa_answered": False, "sm_answer_s": math.nan, "sa_answer_s": math.nan}


def said(*changes):
    rounds = [ManagerRound(**{**WELL, "time_ns": i * 10**10, **c}) for i, c in enumerate(changes)]
    return list(manager_findings(rounds))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([{}, SILENT, SILENT, SILENT], "sm-stalled"),
        ([SILENT, SILENT], "sm-stalled"),
        (
            [
                {},
                {**SILENT, "port_answered": False, "agents_silent": 1},
                {**SILENT, "port_answered": False, "agents_silent": 1},
            ],
            "sm-unreachable",
        ),
        (
            [{}, {"sa_answered": False, "sa_answer_s": math.nan}, {"sa_answered": False, "sa_answer_s": math.nan}],
            "sa-silent",
        ),
        ([{"sa_answer_s": 2.5}, {"sa_answer_s": 3.0}], "sa-slow"),
        ([{"sa_wait_s": 2.5}, {"sa_wait_s": 4.0}], "sa-slow"),
    ],
)
def test_each_is_told_from_the_others(changes, code):
    (one,) = said(*changes)
    assert one.code == code and "sm-host HCA-1" in one.message and "\n" not in one.message
    assert len(one.evidence["rounds"]) == len(changes)


@pytest.mark.parametrize(
    "changes",
    [
        [{}, {}, {}],
        [SILENT],
        [{}, SILENT],
        [SILENT, SILENT, {}],
        [{}, {"sa_answer_s": 3.0}],
        [{"lid": 0, **SILENT}, {"lid": 0, **SILENT}],
        [
            {**SILENT, "port_answered": False, "agents_silent": 100},
            {**SILENT, "port_answered": False, "agents_silent": 100},
        ],  # the own link is down
        [{"lid": 3, **SILENT}, {"lid": 4, **SILENT}],  # another took over
    ],
)
def test_nothing_is_said_of_what_is_well_or_too_short(changes):
    assert said(*changes) == []


def test_how_long_it_is_silent_is_from_the_last_answer():
    (one,) = said({}, {}, SILENT, SILENT, SILENT)
    assert "for 30 s" in one.message and "100 of 100 devices answered" in one.message
