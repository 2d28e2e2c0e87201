"""The report's manager stands where the file's master does, and says so; without one it says where it ran."""

from __future__ import annotations

from softib.analysis.pipeline import checked
from softib.fabric.formats.base import ReadResult
from softib.fabric.node_finder import master_of, state_of
from softib.fabric.topologies.registry import generate


def facts(sms: list[dict]) -> dict[str, str]:
    fabric = generate("fat-tree", hosts=16, radix=8)
    fabric.source.sms = sms
    report = checked("pod", ReadResult(fabric, [], "fabric.yaml"))
    assert report.bring_up is not None
    return dict(report.bring_up.facts())


def test_the_master_of_the_file_is_named_and_stood_in_for():
    told = facts([{"node": 0, "portnum": 0, "state": "SMINFO_STANDBY"}, {"node": 7, "portnum": 1, "state": 3}])
    assert told["Ours ran on"].startswith(told["Master in the source"]) and told["Ours ran on"].endswith(
        "master's place"
    )


def test_without_one_master_nothing_is_made_up():
    assert "Master in the source" not in facts([])
    two = [{"node": 6, "state": 3}, {"node": 7, "state": 3}]
    assert "Master in the source" not in facts(two)
    fabric = generate("ring", switches=4)
    fabric.source.sms = [{"node": 99, "state": "master"}]
    assert master_of(fabric) is None and state_of({"state": 17}) == state_of({}) == "unknown"
