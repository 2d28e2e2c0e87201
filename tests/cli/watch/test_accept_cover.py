"""``softib accept --cover`` as a user types it. Oracles: the schema, the fat tree's construction, a
standard HTML parser, hostile input."""

from __future__ import annotations

import hashlib
import json
from html.parser import HTMLParser

import pytest

from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    path = tmp_path_factory.mktemp("cover") / "tree <b>.yaml"
    path.write_text("generation: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n")
    return path


class Page(HTMLParser):
    """Tags, addresses and text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses, self.text = set(), [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href")]

    def handle_data(self, data):
        self.text += data


def test_a_file_is_covered_in_virtual_time_with_a_certificate(tree, tmp_path):
    """Eight hosts, four leaves, two spines: 16 cables, two directions each, four kinds of them."""
    html = tmp_path / "c.html"
    done = command("accept", tree, "--cover", "--html", html, "--json")
    document = check("accept-cover", done.json())
    assert done.code == 0 and (document["directions"], document["proven"]) == (32, 32)
    assert [(t["directions"], t["proven"]) for t in document["tiers"]] == [(8, 8)] * 4
    assert document["inputs"][0] == {"name": str(tree), "sha256": hashlib.sha256(tree.read_bytes()).hexdigest()}
    page = Page()
    page.feed(html.read_text())
    assert not page.addresses and "script" not in page.tags and "b" not in page.tags  # the file's name is text
    assert "32 of 32 directions" in page.text and document["inputs"][0]["sha256"] in page.text


def test_a_later_run_is_compared(tree, tmp_path):
    before = command("accept", tree, "--cover", "--json").json()
    missing = before["unproven"]
    before["slow"] = [{"place": "leaf-1[3]", "peer": "spine-1[1]", "loss_percent": 2.0, "rounds": 2}]
    (tmp_path / "before.json").write_text(json.dumps(before))
    done = command(
        "accept", tree, "--cover", "--compare", tmp_path / "before.json", "--hosts", "host-000[1-4]", "--json"
    )
    compared = check("accept-cover", done.json())["compared"]
    assert not missing and compared["no_longer_slow"] == ["leaf-1[3] → spine-1[1]"]
    assert len(compared["no_longer_proven"]) == len(done.json()["unproven"]) > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cover", "--quick"], "--quick has no effect with --cover"),
        (["--html", "x.html"], "--html has no effect without --cover"),
        (["--cover", "--launcher", "ssh"], "umad:DEVICE"),
        (["--cover", "--rounds", "0"], "rounds=0"),
        (["--cover", "--hosts", "host-0001"], "a flow needs two"),
        (["--cover", "--hosts", "nobody"], "nobody"),
        (["--launcher", "virtual"], "is for --cover"),
    ],
)
def test_what_cannot_be_is_one_line(tree, arguments, words):
    done = command("accept", tree, *arguments)
    assert done.code == 2 and words in one_line(done)


def test_another_document_is_no_earlier_run(tree, tmp_path):
    (tmp_path / "x.json").write_text('{"schema": "softib/check/1"}')
    done = command("accept", tree, "--cover", "--compare", tmp_path / "x.json")
    assert done.code == 2 and "not a result of softib accept --cover" in one_line(done)
