"""``softib check`` for people and for CI: what is told, what is known already, and in which format."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from tests.cli.run import one_line, softib

FAULTS = """
name: pod
generation: NDR
topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 32}
faults:
  - {kind: remove-cable, cable: "leaf-2[5]"}
  - {kind: slow-link, cable: "leaf-3[6]", speed: EDR}
  - {kind: duplicate-guid, node: host-0009, of: host-0001}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> Path:
    """A tree with three planted faults."""
    path = tmp_path_factory.mktemp("faulty") / "pod.yaml"
    path.write_text(FAULTS)
    return path


@pytest.fixture(scope="module")
def found(faulty) -> list[dict]:
    """Every finding of it."""
    return softib("check", faulty, "--json").json()["findings"]


def codes(*args: object) -> list[str]:
    return [f["code"] for f in softib("check", *args, "--json").json()["findings"]]


def test_the_planted_faults_are_of_three_severities(found):
    assert {f["severity"] for f in found} >= {"error", "warning"}


@pytest.mark.parametrize("least", ["info", "warning", "error"])
def test_severity_is_a_threshold(faulty, found, least):
    order = ["info", "warning", "error"]
    expected = [f["code"] for f in found if order.index(f["severity"]) >= order.index(least)]
    assert codes(faulty, "--severity", least) == expected


def test_ignored_codes_are_not_told_and_not_judged(faulty, found):
    every = sorted({f["code"] for f in found})
    assert "link-slow" not in codes(faulty, "--ignore", "link-slow")
    ran = softib("check", faulty, *(word for code in every for word in ("--ignore", code)), "--json")
    assert (ran.code, ran.json()["findings"]) == (0, [])
    assert "link-slow" in one_line(softib("check", faulty, "--ignore", "link-slwo"))


def test_a_program_that_just_started_knows_every_code():
    """Codes are declared where their checks are; other tests of this process have imported them all."""
    words = "from softib.api.findings import checked_codes as c; c(['swapped-cables', 'plan-missing-cable', 'slow-host', 'sm-none'])"
    ran = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_baseline_leaves_what_is_new(faulty, found, tmp_path):
    known, worse = tmp_path / "known.json", tmp_path / "pod.yaml"
    assert softib("check", faulty, "--write-baseline", known).code == 0
    ran = softib("check", faulty, "--baseline", known)
    assert ran.code == 0 and f"{len(found)} known findings" in " ".join(ran.out.split())
    # Another cable goes, and one fault is mended: the one is told, the other counted.
    worse.write_text(FAULTS.replace('"leaf-3[6]", speed: EDR', '"leaf-5[6]", speed: EDR'))
    ran = softib("check", worse, "--baseline", known, "--json")
    assert ran.code == 1
    told = ran.json()
    slow = [f for f in told["findings"] if f["code"] == "link-slow"]
    assert [("leaf-5", 6) in [(p["node"], p["portnum"]) for p in f["where"]] for f in slow] == [True]
    assert "duplicate-node-guid" not in {f["code"] for f in told["findings"]}
    assert any("resolved" in note for note in told["notes"])


def test_the_same_baseline_twice_and_with_another_seed_of_order(faulty, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    softib("check", faulty, "--write-baseline", one)
    softib("check", faulty, "--write-baseline", two)
    assert one.read_bytes() == two.read_bytes()


def test_a_second_fault_of_one_place_and_kind_is_new():
    from collections import Counter

    from softib.diags.baseline import fingerprint, new_findings
    from softib.diags.finding import Finding, Location, Severity

    def of(severity: Severity, message: str) -> Finding:
        return Finding("link-slow", severity, (Location("leaf", 7, 3),), message)

    first = of(Severity.WARNING, "runs at 10")
    known = Counter([fingerprint(first)])
    assert new_findings([of(Severity.WARNING, "runs at 20")], known) == ([], 1, 0)
    worse, again = of(Severity.ERROR, "runs at 1"), of(Severity.WARNING, "and another")
    assert new_findings([first, again, worse], known) == ([again, worse], 1, 0)
    assert new_findings([], known) == ([], 0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"softib_baseline": 2, "findings": []}',
        '{"softib_baseline": 1, "findings": [3]}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_no_baseline_is_one_line_before_any_work(faulty, tmp_path, text):
    path = tmp_path / "b.json"
    path.write_text(text)
    assert str(path) in one_line(softib("check", faulty, "--baseline", path))
    assert "--write-baseline" in one_line(softib("check", faulty, "--baseline", tmp_path / "absent"))
    assert "nowhere" in one_line_of_last(softib("check", faulty, "--write-baseline", tmp_path / "nowhere" / "b"))


def one_line_of_last(ran) -> str:
    assert ran.code == 2 and ran.out == ""
    return ran.err.splitlines()[-1]


def test_all_shows_what_is_cut_short_otherwise(tmp_path):
    source = tmp_path / "many.yaml"
    faults = ", ".join(f'{{cable: "leaf-{i}[{p}]", ber: 1.0e-5}}' for i in range(1, 4) for p in range(5, 9))
    source.write_text(f"topology: {{kind: fat-tree, radix: 8, levels: 2}}\nfaults: [{faults}]\n")
    number = len(softib("check", source, "--json").json()["findings"])
    short, full = softib("check", source), softib("check", source, "--all")
    assert "more of link-bit-errors" in " ".join(short.out.split())
    assert "more of" not in " ".join(full.out.split())
    assert sum(line.startswith(("error", "warning", "info")) for line in full.out.splitlines()) == number


def test_csv_has_a_row_for_each_finding(faulty, found):
    ran = softib("check", faulty, "--format", "csv")
    assert ran.code == 1
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(r["severity"], r["code"], r["message"]) for r in rows] == [
        (f["severity"], f["code"], f["message"]) for f in found
    ]
    for row, f in zip(rows, found, strict=True):
        assert len([g for g in row["guids"].split("; ") if g]) == len(f["where"])


def test_sarif_holds_what_its_specification_demands(faulty, found):
    """SARIF 2.1.0: 3.13 (log), 3.14 (run), 3.19 (driver), 3.27 (result), 3.49 (rule), 3.33 (logical location)."""
    log = softib("check", faulty, "--format", "sarif").json()
    assert log["version"] == "2.1.0" and set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    rules = driver["rules"]
    assert driver["name"] == "softib" and len({r["id"] for r in rules}) == len(rules)
    assert all(
        r["shortDescription"]["text"] and r["defaultConfiguration"]["level"] in ("error", "warning", "note")
        for r in rules
    )
    assert len(run["results"]) == len(found)
    level = {"error": "error", "warning": "warning", "info": "note"}
    for result, f in zip(run["results"], found, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == f["code"]
        assert result["level"] == level[f["severity"]] and result["message"]["text"] == f["message"]
        (location,) = result["locations"]
        uri = urlsplit(location["physicalLocation"]["artifactLocation"]["uri"])
        assert uri.path and not uri.scheme and " " not in uri.path
        names = [p["fullyQualifiedName"] for p in location.get("logicalLocations", [])]
        assert [int(n.split("/")[0], 16) for n in names] == [int(p["guid"], 16) for p in f["where"]]
        assert all(isinstance(v, str) for v in result["partialFingerprints"].values())


def test_sarif_notifies_of_unreadable_records(tmp_path):
    net = tmp_path / "a b.net"
    net.write_text('Switch 4 "S1"\n[1] "H1"[1]\n[9] "H1"[1]\n\nHca 1 "H1"\n[1] "S1"[1]\n')
    log = softib("check", net, "--format", "sarif").json()
    told = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert told and told[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert "a%20b.net" in told[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def test_junit_counts_failures(faulty, found):
    root = ElementTree.fromstring(softib("check", faulty, "--format", "junit").out.encode())
    (suite,) = root
    bad = [f for f in found if f["severity"] != "info"]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(found)), str(len(bad)))
    assert [c.find("failure").get("message") for c in suite if c.find("failure") is not None] == [
        f["message"] for f in bad
    ]


def test_a_clean_fabric_is_one_passing_case(tmp_path):
    source = tmp_path / "clean.yaml"
    source.write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\n")
    ran = softib("check", source, "--format", "junit", "--severity", "warning")
    (case,) = ElementTree.fromstring(ran.out.encode())[0]
    assert ran.code == 0 and not list(case)


def test_hostile_names_break_no_format(tmp_path):
    evil = '=cmd|" /C calc"!A0 <b>&]]> \x1b[2J'
    net = tmp_path / "evil.net"
    net.write_text(
        f'Switch 4 "S1" # "{evil}"\n[1] "H1"[1]\n[2] "H2"[1]\n\nHca 1 "H1" # "@x"\n[1] "S1"[1]\n\nHca 1 "H2" # "@x"\n[1] "S1"[2]\n'
    )
    for form in ("csv", "sarif", "junit"):
        out = softib("check", net, "--format", form).out
        assert out and "\x1b" not in out
        if form == "csv":
            assert not any(c.startswith(tuple("=+-@")) for row in csv.reader(io.StringIO(out)) for c in row)
        elif form == "junit":
            ElementTree.fromstring(out.encode())
        else:
            json.loads(out)


def test_json_and_another_format_exclude_each_other(faulty):
    assert "one of the two" in one_line(softib("check", faulty, "--json", "--format", "csv"))
    assert softib("check", faulty, "--format", "json").json()["findings"]
    assert "sarif" in one_line(softib("check", faulty, "--format", "xml"))
