"""What ``--json`` prints is what docs/schemas says. Oracle: the library jsonschema, every key known, on real output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.documents import check
from tests.cli.run import softib

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


SOURCES = {
    "tree": "topology: {kind: fat-tree, radix: 4, levels: 2}\n",
    "faulty": "topology: {kind: fat-tree, radix: 8, levels: 2}\nfaults: [{kind: slow-link, cable: 'leaf-2[5]', speed: SDR}]\n",
    "torus": "topology: {kind: torus, dims: [3, 3]}\n",
    "dragonfly": "topology: {kind: dragonfly, g: 3, a: 4, p: 2, h: 2}\n",
    "nothing": "topology: {kind: ring, switches: 3, hosts_per_switch: 0}\n",
    "no room": "topology: {kind: fat-tree, radix: 36, levels: 3}\nsm: {lmc: 3}\n",
}


@pytest.fixture(params=SOURCES)
def source(request, tmp_path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(SOURCES[request.param])
    return path


def test_of_every_kind_of_fabric(source):
    check("check", softib("check", source, "--json").json())
    report = check("report", softib("report", source, "--json").json())
    if report["routing"] is not None:
        check("route", softib("route", source, "--json").json())


def test_of_tables_a_plan_and_a_matrix(tmp_path):
    source, plan, dump = tmp_path / "built.yaml", tmp_path / "plan.net", tmp_path / "t.lft"
    source.write_text(SOURCES["faulty"])
    check("convert", softib("convert", source, plan, "--json").json())
    source.write_text(SOURCES["faulty"].replace("slow-link", "remove-cable").replace(", speed: SDR", ""))
    made = softib("route", source, "--engine", "minhop", "--dump", dump, "--json").json()
    assert "switch_routes" not in check("route", made)
    assert check("route", softib("route", source, "--lfts", dump, "--json").json())["switch_routes"]["total"] > 0
    matrix = tmp_path / "matrix.csv"
    matrix.write_text("host-0001,host-0009,1000000\n")
    report = check("report", softib("report", source, "--plan", plan, "--traffic", matrix, "--json").json())
    assert report["plan"]["table"] and report["traffic"]["flows"] == 1
    changes = check("diff", softib("diff", plan, source, "--json").json())
    assert not changes["equal"]


def test_of_a_credit_loop_and_a_broken_file(tmp_path):
    ring, net = tmp_path / "ring.yaml", tmp_path / "broken.net"
    ring.write_text("topology: {kind: ring, switches: 6}\n")
    assert check("route", softib("route", ring, "--engine", "minhop", "--json").json())["credit_loop"]
    net.write_text('Switch 4 "S1"\n[1] "H1"[1]\n[9] "H1"[1]\n\nHca 1 "H1"\n[1] "S1"[1]\n')
    assert check("check", softib("check", net, "--json").json())["problems"]


@pytest.mark.parametrize(
    "how",
    [
        ("shift:64KB", "--layer", "static"),
        ("incast:64KB,senders=3", "--what-if", "engine=minhop"),
        ("all-to-all:64KB",),
        (
            "incast:64KB,senders=3",
            "--layer",
            "packet",
            "--trace",
            "0",
            "--sample",
            "1us",
            "--alone",
            "--what-if",
            "ar=on,cc=on",
            "--counters",
            "leaf-1:1",
        ),
    ],
)
def test_of_a_workload(how, tmp_path):
    source = tmp_path / "tree.yaml"
    source.write_text(SOURCES["tree"])
    check("simulate", softib("simulate", source, *how, "--json").json())


def test_of_the_machine_and_of_kinds():
    check("doctor", softib("doctor", "--json").json())
    check("generate", softib("generate", "--list", "--json").json())
    check("generate", softib("generate", "torus", "--list", "--json").json())


def test_of_real_files(shared_data):
    for path in ("ibutils-clusters/subnet.lst", "ufm-selene-storage/selene.storage.txt"):
        found = shared_data / path
        if found.exists():
            check("check", softib("check", found, "--json").json())


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.stem)
def test_of_the_examples(example):
    check("report", softib("report", example, "--json").json())


def test_a_key_that_nobody_declared_is_found(jsonschema):
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        check(
            "diff",
            {
                "schema": "softib/diff/1",
                "a": "a",
                "b": "b",
                "equal": True,
                "changes": [],
                "problems": [],
                "surprise": 1,
            },
        )


def test_accept_and_baseline_documents_are_what_their_schemas_say(tmp_path):
    """Of measurements that were made up: no program is started."""
    import softib as library
    from softib.api.acceptance.accepting import judged, where_to_measure
    from softib.api.progress import unwatched
    from softib.diags.acceptance.measurements import Failure, Measurements

    tree = library.generate("fat-tree", radix=4, levels=2)
    place = where_to_measure(tree)
    rows = [{"test": "bandwidth", "round": 0, "source": a, "target": a + 1, "value": 90.0} for a in (0, 2, 4)]
    measured = Measurements.of(place.ends, rows, [Failure(0, "bandwidth", 6, 7, 6, "no route to host")])
    about = {
        "launcher": "ssh",
        "program": "write",
        "tests": ["bandwidth"],
        "rounds": 1,
        "sizes": {"bandwidth": 1 << 20},
        "seconds": 1.0,
    }
    found = judged(place, measured, about, unwatched)
    document = json.loads(json.dumps(found.to_json()))
    check("accept", document)
    assert [f["code"] for f in document["findings"]] == ["host-unmeasured", "below-model", "cables-uncrossed"]
    (tmp_path / "run.json").write_text(json.dumps(document))
    library.baseline(tree, tmp_path / "run.json").save(tmp_path / "a.json")
    done = softib("baseline", "compare", str(tmp_path / "a.json"), str(tmp_path / "a.json"), "--json")
    assert check("baseline", done.json())["tests"][0]["pairs"] == 3
