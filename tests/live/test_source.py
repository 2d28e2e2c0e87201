"""The name of a running fabric is a SOURCE: what is read is what runs, with its tables and its faults."""

from __future__ import annotations

import re

import pytest

from tests.live.lab import (  # noqa: F401
    Softib,
    said,
    softib,
)
from tests.live.serving import wait_for


def test_a_running_fabric_is_reported_as_it_is(softib):  # noqa: F811
    softib.start("one.yaml", "--engine", "updn")
    told = said(softib, "report", "one")
    assert told["format"] == "running" and told["fabric"]["links"] == softib.status()[0]["links"]
    routing = told["routing"]
    assert routing["origin"] == "as they are in the switches" and told["bring_up"] is None
    assert routing["unreachable"] == 0 and routing["deadlock_free"]
    assert said(softib, "check", "one")["routing"]["engine"] == "as programmed"
    # The tables of the dump are those of the switches, as a stock-formatted dump of both says.
    softib("route", "one", "--dump", "running.lfts")
    softib("route", "one.yaml", "--engine", "updn", "--dump", "planned.lfts")
    lines = lambda name: [x for x in (softib.folder / name).read_text().splitlines() if re.match(r"0x[0-9a-f]{4} ", x)]
    assert sorted(lines("running.lfts")) == sorted(lines("planned.lfts")) != []


@pytest.mark.slow
def test_a_pulled_link_is_found(softib):  # noqa: F811
    softib.start("one.yaml")
    assert said(softib, "diff", "one", "one.yaml")["equal"]
    softib("fault", "link-down", "leaf-1[3]")
    changes = said(softib, "diff", "one.yaml", "one", code=1)["changes"]
    assert [c["kind"] for c in changes] == ["cable-removed"] and any("leaf-1[3]" in w for w in changes[0]["where"])
    softib("convert", "one", "out.ibnetdiscover")
    assert [c["kind"] for c in said(softib, "diff", "one.yaml", "out.ibnetdiscover", code=1)["changes"]] == [
        "cable-removed"
    ]
    assert any(f["code"] for f in said(softib, "check", "one", "--plan", "one.yaml", code=1)["findings"])


@pytest.mark.slow
def test_tables_that_nobody_mended_are_found(softib, stock):  # noqa: F811
    """Stock OpenSM writes the tables and leaves; a stock tool disables a link that they use."""
    softib.start("one.yaml", "--sm", "none")
    assert "no switch has forwarding tables" in " ".join(said(softib, "check", "one", code=1)["notes"])
    assert "no switch has forwarding tables" in softib("route", "one", code=2)
    assert said(softib, "route", "one", "--engine", "minhop")["unreachable"] == 0
    softib.env["OSM_CACHE_DIR"] = softib.env["OSM_TMP_DIR"] = str(softib.folder)
    softib("run", "--", stock("opensm"), "-o", "-f", str(softib.folder / "log"), "-B")
    whole = lambda: all(s["port_states"]["active"] == 2 * s["links"] for s in softib.status())
    assert wait_for(whole)
    assert said(softib, "route", "one")["unreachable"] == 0
    softib("run", "--", stock("ibportstate"), "-D", "0,1", "3", "disable")
    routing = said(softib, "route", "one", code=1)
    assert routing["unreachable"] > 0 and routing["origin"] == "as they are in the switches"


@pytest.mark.slow
def test_a_file_wins_over_the_name_and_says_so(softib):  # noqa: F811
    softib.start("one.yaml")
    (softib.folder / "one").write_bytes((softib.folder / "two.yaml").read_bytes().replace(b"levels: 2", b"levels: 3"))
    out = softib("convert", "one", "x.ibnetdiscover")
    assert "not the running fabric" in out and "20 switches" in out
    (softib.folder / "one").unlink()
    assert "apply only to files" in softib("check", "one", "--ibnl", ".", code=2)
    assert "did you mean one" in softib("check", "ane", code=2)
    assert "no fabric of that name is running" in softib("check", "elsewhere", code=2)
    copy = softib("up", "one", "--name", "copy", "--detach")
    assert "ready in" in copy and [x["name"] for x in softib.status()] == ["copy", "one"]


def test_files_need_no_runtime_directory(softib):  # noqa: F811
    softib.env["XDG_RUNTIME_DIR"] = str(softib.folder / "absent")
    softib("check", "one.yaml")
    assert not (softib.folder / "absent").exists()
