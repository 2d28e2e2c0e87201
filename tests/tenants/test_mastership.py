"""What health says of the master from the first look that it does not answer, and of another master that has ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from softib.errors import PeerError
from softib.tenants.drift import Drift, Drifts
from softib.tenants.mastership import SILENT_LOOKS, MasterWatch

OURS, OTHER = 0xA, 0xB


class View:
    """``answers``: the master's next answers; an exception is raised."""

    def __init__(self, manager: int, *answers: bool | Exception):
        self.manager, self.answers = manager, list(answers)
        self.ports = {g: SimpleNamespace(guid=g, name=f"host-{g:x}[1]") for g in (OURS, OTHER)}

    def look_for_master(self) -> bool:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def watch_of(view: View) -> MasterWatch:
    manager = SimpleNamespace(title="OpenSM of the test", advice="stop the other one", is_master=lambda m: m == OURS)
    return MasterWatch(view, manager)


def test_the_first_unanswered_look_is_told_and_changes_are_still_passed_on():
    watch = watch_of(View(OURS, True, *[False] * SILENT_LOOKS, True))
    watch.look()
    assert not watch.doubt
    for n in range(1, SILENT_LOOKS + 1):
        watch.look()
        assert "host-a[1]" in watch.doubt and "does not answer" in watch.doubt
        assert bool(watch.problem) == (n == SILENT_LOOKS), "it may be busy with a sweep"
    assert watch.look() and not watch.doubt


def test_a_lost_wire_reaches_no_master():
    watch = watch_of(View(OURS, True, PeerError("the wire was lost")))
    watch.look()
    with pytest.raises(PeerError):
        watch.look()
    assert watch.reached is False and watch.doubt


def test_another_master_that_ended_is_not_the_master():
    """Ports keep the LID of a master that was killed."""
    watch = watch_of(View(OTHER, True, False))
    watch.look()
    assert watch.rival and "host-b[1] (000000000000000b) is the master subnet manager, not" in watch.problem
    watch.look()
    assert not watch.rival and watch.problem, "and ours is not the master either"
    assert "is the master" not in watch.problem.replace("when the master is", "") and "host-b[1]" in watch.problem


@pytest.mark.parametrize("answers", [True, False])
def test_a_drift_names_another_master_only_if_there_is_one(answers):
    watch = watch_of(View(OTHER, answers))
    watch.look()
    drifts = Drifts(lambda: 1.0)
    drifts.enter([Drift(1.0, OURS, "host-a[1]", (5,), ())], watch.rival)
    assert ("another subnet manager is the master" in str(drifts.kept[0])) == answers
