"""Results: filters, formats, pictures and answers to mistakes. Oracles: the command line, XML and
JSON readers, set arithmetic."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

import softib
from tests.cli.documents import check as valid
from tests.cli.run import softib as command

FAULTS = (
    "name: pod\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n"
    "faults: [{kind: remove-cable, cable: 'leaf-2[5]'}, {kind: slow-link, cable: 'leaf-3[6]', speed: EDR}]\n"
)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory) -> softib.Fabric:
    path = tmp_path_factory.mktemp("faulty") / "pod.yaml"
    path.write_text(FAULTS)
    return softib.load(path)


@pytest.fixture(scope="module")
def found(faulty) -> softib.Findings:
    return softib.check(faulty)


@pytest.fixture(scope="module")
def report(faulty) -> softib.Report:
    return softib.report(faulty)


def test_filters_part_the_findings(found):
    codes = {f.code for f in found}
    assert "link-slow" in codes and len(codes) > 1
    assert len(found.of("link-slow")) + len(found.without("link-slow")) == len(found)
    assert not {f.code for f in found.without("link-slow")} & {"link-slow"}
    assert len(found.of(*codes)) == len(found) and not found.without(*codes)
    with pytest.raises(softib.UnknownName, match="link-slow"):
        found.without("link-slwo")


def test_what_is_wrong_in_a_filter_is_said_before_any_work():
    for wrong, says in (
        ({"ignore": ["link-slwo"]}, "link-slow"),
        ({"severity": "bad"}, "severity"),
        ({"baseline": "/no/b"}, "/no/b"),
    ):
        with pytest.raises(softib.InputError, match=says):
            softib.check("no-such-file.net", **wrong)


def test_a_baseline_knows_what_was_found(faulty, found, tmp_path):
    found.of("link-slow").save_baseline(tmp_path / "known.json")
    left = found.new_since(tmp_path / "known.json")
    assert [f.code for f in left] == [f.code for f in found.without("link-slow")]
    assert any("1 known finding" in note for note in left.notes) and not found.notes
    again = softib.check(faulty, baseline=tmp_path / "known.json")
    assert [f.message for f in again] == [f.message for f in left]


def test_formats_are_those_of_the_command_line(faulty, found):
    path = faulty.source
    assert found.to_csv() == command("check", path, "--format", "csv").out
    assert found.to_sarif() == command("check", path, "--format", "sarif").out
    assert len(ElementTree.fromstring(found.to_junit().encode())[0]) == len(found)
    assert valid("check", found.to_json()) == command("check", path, "--json").json()
    only = found.of("link-slow")
    assert [f["code"] for f in only.to_json()["findings"]] == ["link-slow"]


def test_printing_is_that_of_the_command_line(faulty, found, report, capsys):
    for thing, verb in ((found, "check"), (report, "report"), (softib.route(faulty), "route")):
        thing.print()
        assert capsys.readouterr().out.splitlines()[2:] == command(verb, faulty.source).out.splitlines()[2:]
    assert json.dumps(valid("report", report.to_json()))
    assert {"reading", "bring-up", "checks"} <= set(report.seconds)


def test_a_fabric_is_written_and_read_again(faulty, tmp_path):
    faulty.save(tmp_path / "pod.net")
    again = softib.load(tmp_path / "pod.net")
    assert (again.switches, again.hosts, again.cables) == (faulty.switches, faulty.hosts, faulty.cables)
    valid("diff", softib.diff(faulty, again).to_json())
    with pytest.raises(softib.UnknownFormat, match="suffix"):
        faulty.save(tmp_path / "pod.xyz")
    tree = softib.generate("torus", dims=[3, 3])
    (tmp_path / "tree.yaml").write_text(tree.to_yaml())
    assert not softib.diff(tree, tmp_path / "tree.yaml")
    with pytest.raises(softib.InputError, match="not generated"):
        again.to_yaml()


def test_guid_files_mend_a_tree(tmp_path):
    source = Path(__file__).resolve().parents[2] / "examples" / "superpod-127-faults.yaml"
    remedy = softib.route(source, "ftree").save_guid_files(tmp_path)
    if remedy is None:
        pytest.skip("ftree takes this tree, or no choice of roots makes it fit")
    assert softib.route(source, "ftree", guid_files=remedy.files).engine == "ftree" and "\n" not in remedy.reason


def test_steps_are_watched():
    steps = []

    @contextmanager
    def watch(step):
        steps.append(step)
        yield

    softib.check(softib.generate("fat-tree", radix=4, levels=2), steps=watch)
    assert steps[0] == "bring-up" and "checks" in steps


def test_pictures_are_svg(faulty, found, report):
    made = softib.route(faulty)
    prediction = report.prediction
    pictures = [
        faulty.plot(),
        found.plot(),
        report.plot(),
        made.plot(),
        *(prediction.plot(k) for k in ("loads", "links", "map")),
    ]
    for picture in pictures:
        ElementTree.fromstring(str(picture).replace("&nbsp;", " "))
    bars = [e for e in ElementTree.fromstring(str(made.plot())).iter() if e.get("class") == "bar"]
    assert len(bars) == len(made.hops), "a bar a number of hops"
    curves = [e for e in ElementTree.fromstring(str(prediction.plot())).iter() if e.tag.endswith("polyline")]
    assert len(curves) == 3, "a line a pattern"
    with pytest.raises(softib.UnknownName, match="did you mean loads"):
        prediction.plot("load")
    with pytest.raises(softib.InputError, match="cannot write"):
        made.plot().save("/no/such/folder/p.svg")
    assert "<svg" in prediction._repr_html_()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (7, "not int"),
        ({"kind": "fat-tree"}, "softib.generate"),
        (b"pod.yaml", "bytes"),
        (None, "not NoneType"),
        (Path("/tmp"), "directory"),
        ("pod.yml\0", "null|no such"),
    ],
)
def test_load_says_what_would_be_right(wrong, says):
    for call in (softib.load, softib.check):
        with pytest.raises(softib.InputError, match=says) as raised:
            call(wrong)
        assert "\n" not in str(raised.value)


def test_load_of_a_fabric_and_of_an_open_file(faulty):
    with pytest.raises(softib.InputError, match="is already a fabric"):
        softib.load(faulty)
    with open(faulty.source) as file, pytest.raises(softib.InputError, match="open file"):
        softib.load(file)


@pytest.mark.parametrize(
    ("attribute", "says"), [("hots", "did you mean hosts"), ("node", "did you mean nodes"), ("xyzzy", "it has")]
)
def test_a_misspelt_attribute_is_answered(faulty, attribute, says):
    with pytest.raises(AttributeError, match=says):
        getattr(faulty, attribute)
    assert not hasattr(faulty, "_ipython_display_")


def test_a_misspelt_attribute_of_every_result(found, report):
    for thing, wrong, right in (
        (found, "at_lest", "at_least"),
        (report, "finding", "findings"),
        (report.prediction, "load", "loads"),
    ):
        with pytest.raises(AttributeError, match=right):
            getattr(thing, wrong)


def test_engines_by_name():
    assert {"minhop", "updn", "ftree"} <= set(softib.engines())
    with pytest.raises(softib.UnknownName, match="updn"):
        softib.engines("ftree,upnd")


def test_hosts_of_a_leaf_that_is_cut_off_are_no_proof(tmp_path):
    """Ports that the manager cannot reach have no LID and are in no pair: the tables are not good
    for that, and a run says who is left out."""
    path = tmp_path / "cut.yaml"
    lines = ["topology: {kind: fat-tree, radix: 8, levels: 2}", "faults:"]
    path.write_text(
        "\n".join([*lines, *(f'- {{cable: "leaf-3[{port}]", kind: remove-cable}}' for port in range(5, 9))])
    )
    found = softib.route(str(path))
    assert not found.good and found.ports_without_lid == 4 and found.unreachable == 0
    assert "4 host ports have no LID" in repr(found)
    assert "4 cabled host ports have no LID" in softib.simulate(str(path), "permutation:64KB").to_json()["notes"][0]


def test_runs_draw_themselves():
    """Oracles: an XML reader; a bar is as long as its run took."""
    tree = softib.generate("fat-tree", radix=4, levels=2)
    run = softib.simulate(tree, "all-to-all:64KB", record=softib.Record(samples=True))
    for kind in ("latencies", "links", "time"):
        assert len(list(ElementTree.fromstring(str(run.plot(kind))).iter())) > 10
    with pytest.raises(softib.UnknownName, match="plot of a simulation"):
        run.plot("latency")
    with pytest.raises(softib.InputError, match="no time to draw; give record"):
        softib.simulate(tree, "shift:1KB").plot("time")
    swept = softib.sweep(tree, "shift:1KB", {"parameters": {"size": ["1KB", "64KB", "1MB"]}}, workers=1)
    bars = [float(e.get("width")) for e in ElementTree.fromstring(str(swept.plot())).iter() if e.get("class") == "bar"]
    took = [row["simulated_us"] for row in swept.rows()]
    assert bars == pytest.approx([bars[-1] * t / took[-1] for t in took], abs=0.1)
    assert "3 rows" in swept._repr_html_()


def test_an_audit_refuses_codes_and_severities_that_do_not_exist():
    """As findings of a check do: no finding of a misspelt code is no good news."""
    from softib.api.audit import Audit, AuditResult

    audit = Audit(AuditResult(source="", ports=0, managers=[], findings=[], unjudged=[]))
    assert list(audit.of("mkey-unset")) == list(audit.without("mkey-unset")) == []
    for ask in (audit.of, audit.without):
        with pytest.raises(softib.UnknownName, match="did you mean mkey-unset"):
            ask("mkey-unst")
    with pytest.raises(softib.UnknownName, match="did you mean error"):
        audit.at_least("eror")
