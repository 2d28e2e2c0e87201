"""``softib serve`` in Chromium as people use it: what is clicked, what is seen. Skips where Chromium or the map's libraries are absent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import softib as library
from softib.monitor.history import History
from softib.web.app import VENDOR
from tests.monitor.lab import fabric_up
from tests.render.browser import CHROMIUM, Browser
from tests.web.kept_days import keep, without
from tests.web.panning import DRAWN, at_rest, camera, pan, serving, until
from tests.web.twins import TWINS

pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra serve)")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not (VENDOR / "sigma.min.js").exists(), reason="the map's libraries are absent: make web (npm)"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Iterator[Browser]:
    """A tree of 32 hosts with a missing cable between leaf-1 and a spine."""
    folder = tmp_path_factory.mktemp("serve")
    fabric = folder / "tree.yaml"
    fabric.write_text(
        library.generate("fat-tree", radix=8, levels=2).to_yaml()
        + 'faults:\n- {kind: remove-cable, cable: "leaf-1[5]"}\n'
    )
    jobs = folder / "jobs.yaml"
    jobs.write_text("train: [host-0001, host-0005]\ncfd: [host-0002, host-0006]\n")
    with serving(str(fabric), "--jobs", str(jobs)) as address, Browser(folder, webgl=True) as found:
        found.go(address)
        until(found, DRAWN, "the map")
        yield found


def test_the_page_says_what_is_served_and_complains_of_nothing(page: Browser) -> None:
    assert "12 switches, 32 hosts, 63 cables" in page.run("document.getElementById('counts').textContent")
    assert page.complaints() == []
    assert {u.split("/")[2].partition(":")[0] for u in page.requests() if u.startswith("http")} == {"127.0.0.1"}


def test_a_finding_shows_its_place(page: Browser) -> None:
    until(page, "document.querySelector('.finding.warning') !== null", "the finding")
    assert "leaf-1" in page.run("document.querySelector('.finding').textContent")
    page.click(".finding")
    marked = page.run("[...softib.map.marked].map(i => softib.map.doc.name[i])")
    assert "leaf-1" in marked


def test_the_report_that_is_served_has_the_map_for_its_drawing(page: Browser) -> None:
    """What is chosen in the report is shown on the map in it; nothing of both is refused by their policies."""
    origin = page.run("location.origin")
    page.go(f"{origin}/report")
    inside = "document.getElementById('live').contentWindow.softib"
    until(page, f"document.getElementById('live') !== null && {inside}?.map?.doc != null", "the map in the report")
    assert page.run("document.querySelector('svg.fabric')") is None and "fabric report" in page.run("document.title")
    page.click("#findings-table .place")
    until(page, f"{inside}.map.marked.size > 0", "the node on the map")
    assert page.run(f"[...{inside}.map.marked].map(i => {inside}.map.doc.name[i])") == ["leaf-1"]
    assert "leaf-1[5]" in page.run("document.getElementById('chosen').textContent") and page.complaints() == []
    page.go(f"{origin}/")
    until(page, DRAWN, "the map")


def test_a_node_is_found_by_its_name_and_shows_its_ports(page: Browser) -> None:
    page.key("/", "/")
    assert page.run("document.activeElement.id") == "search"
    page.type("leaf-3")
    until(page, "document.querySelectorAll('#hits li').length === 1", "one hit")
    page.key("Enter")
    until(page, "document.querySelectorAll('#node tr[data-port]').length === 9", "its ports")
    until(page, "document.querySelector('#node h2').textContent === 'leaf-3'", "its name")
    assert "spine-" in page.run("document.querySelector('#node tr[data-port=\"5\"]').textContent")
    assert page.run("[...softib.map.marked].map(i => softib.map.doc.name[i])") == ["leaf-3"]


def test_a_job_that_is_clicked_is_shown_alone(page: Browser) -> None:
    page.click("#tab-jobs")
    assert page.run("[...document.querySelectorAll('#jobs [data-job]')].map(b => b.dataset.job)") == ["train", "cfd"]
    assert "2 hosts" in page.run("document.querySelector('[data-job=train]').textContent")
    page.click("[data-job=cfd]")
    until(
        page,
        "softib.map.by === 'jobs' && softib.map.worst[softib.map.doc.name.indexOf('host-0002')] === 2",
        "its hosts",
    )
    assert page.run("softib.map.worst[softib.map.doc.name.indexOf('host-0001')]") == 0
    host = page.run("softib.map.doc.name.indexOf('host-0002')")
    drawn = f"softib.map.graph.hasNode({host}) && softib.map.graph.getNodeAttribute({host}, 'color')"
    until(page, f"({drawn}) === softib.map.nodeColour({host})", "its colour")
    page.click("[data-job=cfd]")  # and all again
    until(page, "softib.map.worst[softib.map.doc.name.indexOf('host-0001')] === 1", "the other's hosts")


ROUTED = """
import sys, softib
from softib.api.fabric import result_of
tree = softib.bring_up(softib.generate("fat-tree", radix=4, levels=2, generation="NDR")).fabric
result_of(tree).fabric.source.records |= {"lfts", "lids", "states"}
folder = sys.argv[1]
softib.serve(tree, port=0, history=f"{folder}/past", jobs=f"{folder}/jobs.json", ready=lambda address: print(f"tree at {address}", file=sys.stderr, flush=True))
"""
"""A fabric with forwarding tables; files of one form do not hold cables and tables both."""


@pytest.fixture(scope="module")
def routed(tmp_path_factory) -> Iterator[Browser]:
    """A tree of 8 hosts with tables, and a history of an hour: a bad cable at its beginning, a host that is gone at its end, another job at each."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")
    folder = tmp_path_factory.mktemp("routed")
    whole, history = fabric_up(), History(folder / "past")
    times = [keep(history, whole, m, {("leaf-1", 3): 5000}, 60) for m in range(3)]
    times.append(keep(history, without(whole, ("host-0003", 1)), 60, {}, 60))
    job = {
        "job_state": ["COMPLETED"],
        "job_id": 1,
        "name": "early",
        "nodes": "host-[0001-0002]",
        "start_time": times[0] - 600,
        "end_time": times[2] + 600,
    }
    late = job | {"job_state": ["RUNNING"], "job_id": 2, "name": "late", "start_time": times[3] - 600, "end_time": 0}
    (folder / "jobs.json").write_text(json.dumps({"jobs": [job, late]}))
    with (
        serving(str(folder), program=("-c", ROUTED)) as address,
        Browser(folder, webgl=True) as found,
    ):
        found.go(address)
        until(found, DRAWN, "the map")
        yield found


def slide(page: Browser, to: int) -> None:
    page.run(f"((s) => {{ s.value = {to}; s.dispatchEvent(new Event('input')); }})(document.getElementById('time')); 0")


def test_findings_and_jobs_are_those_of_the_time_that_is_shown(routed: Browser) -> None:
    page, jobs = routed, "[...document.querySelectorAll('#jobs [data-job]')].map(b => b.dataset.job).join()"
    text = "document.getElementById('findings').textContent"
    until(page, f"{jobs} === 'late (2)' && !{text}.includes('leaf-1[3]')", "jobs and findings of now")
    slide(page, 2)
    until(page, f"{jobs} === 'early (1)' && {text}.includes('leaf-1[3]')", "the bad cable and the job of then")
    slide(page, 3)
    until(page, f"{text}.includes('host-0003 is gone') && {text}.includes('absent')", "the host that was gone")
    slide(page, 4)
    until(page, f"{jobs} === 'late (2)' && !{text}.includes('host-0003')", "now")
    assert page.complaints() == []


def test_two_nodes_that_are_clicked_give_the_path_between_them(routed: Browser) -> None:
    page = routed
    page.click("#tab-path")
    page.run("softib.map.renderer.getCamera().setState({x: 0.5, y: 0.5, ratio: 1}); 0")
    until(page, "softib.map.scene.level === 0", "hosts")
    for name in ("host-0001", "host-0008"):
        click_node(page, name)
    until(page, "document.querySelectorAll('#answer ol li').length >= 3", "the hops")
    assert page.run("[document.getElementById('from').value, document.getElementById('to').value]") == [
        "host-0001",
        "host-0008",
    ]
    hops = page.run("document.querySelector('#answer ol').textContent")
    assert hops.startswith("host-0001 port 1 → leaf-1") and "host-0008" in hops
    assert page.run("softib.map.hops.size") == page.run("document.querySelectorAll('#answer ol li').length")
    assert page.run("document.getElementById('node').hidden")  # the tab stays
    click_node(page, "host-0003")  # and from anew
    until(
        page,
        "document.getElementById('from').value === 'host-0003' && !document.getElementById('to').value",
        "a new beginning",
    )
    click_node(page, "leaf-1")
    until(page, "document.querySelector('#answer ol')?.textContent.startsWith('host-0003')", "a switch is an end too")
    page.click("#tab-node")
    click_node(page, "host-0002")
    until(page, "document.querySelector('#node h2')?.textContent === 'host-0002'", "its ports")
    assert page.complaints() == []


def click_node(page: Browser, name: str) -> None:
    """A click where the map draws the node, when it moves no more and no click before makes this one a double click,
    which zooms."""
    at_rest(page)
    until(page, "softib.map.renderer.getMouseCaptor().clicks === 0", "the end of the click before")
    x, y = page.run(
        f"(() => {{ const m = softib.map, r = m.element.getBoundingClientRect(), p = m.renderer.graphToViewport(m.graph.getNodeAttributes(m.doc.name.indexOf('{name}')));"
        " return [p.x + r.x, p.y + r.y]; })()"
    )
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


def test_keys_move_the_map(page: Browser) -> None:
    page.run("document.getElementById('map').focus()")
    page.run("softib.map.renderer.getCamera().setState({x: 0.5, y: 0.5, ratio: 1}); 0")
    page.key("ArrowLeft")
    assert page.run("softib.map.renderer.getCamera().getState().x") < 0.5
    page.key("+", "+")
    until(page, "softib.map.renderer.getCamera().getState().ratio < 0.9", "nearer")


@pytest.mark.slow
def test_a_cable_that_goes_down_is_drawn_so_and_the_slider_goes_back(softib, monkeypatch, tmp_path) -> None:
    softib.start("one.yaml", "--name", "one")
    monkeypatch.setenv("XDG_RUNTIME_DIR", softib.env["XDG_RUNTIME_DIR"])
    with serving("one", "--every", "0.3") as address, Browser(tmp_path, webgl=True) as live:
        live.go(address)
        until(live, DRAWN, "the map")
        assert live.run("softib.map.down.every(d => d === 0)")
        softib("fault", "link-down", "leaf-2[4]")
        until(live, "document.querySelector('.finding.lost') !== null", "what is down")
        assert "leaf-2[4]" in live.run("document.querySelector('.finding.lost').textContent")
        until(live, "[...softib.map.scene.down].filter(d => d).length === 1", "the edge")
        edge = live.run("[...softib.map.scene.down].indexOf(1)")
        assert live.run(f"softib.map.graph.getEdgeAttribute({edge}, 'color')") in ("#000000", "#ffffff")
        until(live, "softib.state.times.length > 3", "a history")
        live.run(
            "(() => { const t = document.getElementById('time'); t.value = 0; t.dispatchEvent(new Event('input')); })(), 0"
        )
        until(live, "document.getElementById('clock').textContent !== 'now'", "another time")
        softib("down", "one")
        until(live, "/s old/.test(document.getElementById('problem').textContent)", "its age")
        assert live.complaints() == []


def test_dark_and_light(page: Browser) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.run(colour)
    page.click("#theme")
    assert page.run(colour) != before
    page.click("#theme")
    assert page.run(colour) == before


def test_a_phone_shows_all_of_it(page: Browser) -> None:
    page.resize(390, 800, mobile=True)
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("document.getElementById('map').getBoundingClientRect().height") > 200
    page.resize(1280, 900)


def test_a_token_opens_the_page_and_nothing_else_does(tmp_path: Path) -> None:
    import urllib.error
    import urllib.request

    fabric, token = tmp_path / "tree.yaml", tmp_path / "token"
    fabric.write_text(library.generate("fat-tree", radix=4, levels=2).to_yaml())
    token.write_text("0123456789abcdef-of-mine\n")
    with serving(str(fabric), "--token-file", str(token)) as address:
        root = address.partition("?")[0]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{root}api/v1/fabric", timeout=10)
        assert refused.value.code == 401
        refused.value.close()
        with urllib.request.urlopen(f"{root}api/v1/fabric?token=0123456789abcdef-of-mine", timeout=10) as answer:
            assert answer.status == 200


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Iterator[tuple[Browser, float]]:
    """A tree of 11,664 hosts with one missing cable, and the processor time of the page until its map was there."""
    folder = tmp_path_factory.mktemp("large")
    fabric = folder / "large.yaml"
    fabric.write_text(
        library.generate("fat-tree", radix=36, levels=3, hosts=11664).to_yaml()
        + 'faults:\n- {kind: remove-cable, cable: "leaf-300[20]"}\n'
    )
    with serving(str(fabric)) as address, Browser(folder, webgl=True) as found:
        found.go(address)
        until(found, DRAWN, "the map")
        yield found, found.cpu_s()


@pytest.mark.slow
def test_eleven_thousand_hosts_load_in_five_seconds_and_move_without_stalls(large) -> None:
    """Bars: the page works for less than 5 s until its map is there, and for less than 100 ms a frame while the map is
    dragged. They are processor time; bench/web_map.py prints times of the clock."""
    page, loaded_s = large
    drags = [pan(page, ratio) for ratio in (1.0, 1.0, 0.3, 0.08)]
    for drag in drags:
        print(f"{len(drag.frames)} frames of {drag.frame_ms:.0f} ms, the longest {drag.frames[-1]:.0f} ms by the clock")
    print(f"loaded with {loaded_s:.1f} s of the processor")
    assert loaded_s < 5
    assert max(drag.frame_ms for drag in drags) < 100


@pytest.mark.slow
def test_what_stands_far_away_is_drawn_in_groups_and_what_is_near_as_it_is(large) -> None:
    page, _ = large
    camera(page, 1.0)
    groups = page.run(
        "({level: softib.map.scene.level, nodes: softib.map.scene.nodes.size, edges: softib.map.scene.a.length})"
    )
    assert groups["level"] == 1 and 1000 < groups["nodes"] < 2500 and groups["edges"] <= 1000
    # Every cable between groups is in one bundle; hosts' own are inside their racks.
    counted = page.run("softib.map.scene.count.reduce((a, b) => a + b, 0)")
    assert counted == 2 * 11664 - 1
    # A bundle is as bad as its worst edge, a rack as its worst node.
    edge = page.run("softib.map.scene.bundleOf.findIndex(row => row >= 0 && softib.map.scene.count[row] > 1)")
    page.run(
        f"softib.map.colour('load', softib.map.value.map((_, e) => e === {edge} ? 255 : 0), softib.map.worst, softib.map.down), 0"
    )
    row = page.run(f"softib.map.scene.bundleOf[{edge}]")
    assert page.run("[...softib.map.scene.value].map((v, i) => v ? i : -1).filter(i => i >= 0)") == [row]
    assert page.run(f"softib.map.graph.getEdgeAttribute({row}, 'color')") == page.run(f"softib.map.edgeColour({row})")
    # Who is searched is drawn as what it is.
    page.key("/", "/")
    page.run("document.getElementById('search').value = ''")
    page.type("host-05000")
    until(page, "document.querySelectorAll('#hits li').length === 1", "one hit")
    page.key("Enter")
    until(page, "softib.map.scene.level === 0 && softib.map.renderer.getCamera().getState().ratio < 0.2", "hosts")
    host = page.run("softib.map.doc.name.indexOf('host-05000')")
    assert page.run(f"softib.map.scene.nodes.get({host})") is True
    leaf = page.run(f"softib.map.doc.leaf[{host}]")
    assert page.run(f"softib.map.scene.nodes.get({leaf})") is True
    page.run("softib.map.mark([]), 0")


@pytest.mark.slow
def test_a_rack_that_is_clicked_shows_its_switch_and_comes_near(large) -> None:
    page, _ = large
    camera(page, 0.7)
    x, y, name = page.run(
        "(() => { const m = softib.map, r = m.element.getBoundingClientRect(); for (const [key, seen] of m.scene.nodes) { if (!seen || key < 2 ** 20) continue;"
        " const leaf = m.doc.leaf[m.doc.level[1].of.indexOf(key % 2 ** 20)]; const p = m.renderer.graphToViewport(m.graph.getNodeAttributes(key));"
        " if (p.x > 200 && p.x < 700 && p.y > 200 && p.y < 600) return [p.x + r.x, p.y + r.y, m.doc.name[leaf]]; } })()"
    )
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
    until(page, f"document.querySelector('#node h2')?.textContent === '{name}'", "its switch")
    until(page, "softib.map.scene.level === 0", "its hosts")


@pytest.mark.slow
def test_the_slider_shows_the_map_of_earlier_days(tmp_path: Path) -> None:
    """A cable that was pulled ten minutes later: it is there at the left end, black after, and the page says which time is shown."""
    pytest.importorskip("duckdb", reason="duckdb is not installed (the extra monitor)")
    whole, history = fabric_up(), History(tmp_path / "past")
    first = keep(history, whole, 0)
    for minute in (10, 11):
        keep(history, without(whole, ("host-0003", 1)), minute)
    (tmp_path / "one.yaml").write_text("generation: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n")
    down = "softib.map.down.reduce((a, b) => a + b, 0)"
    with (
        serving(str(tmp_path / "one.yaml"), "--history", str(tmp_path / "past")) as address,
        Browser(tmp_path, webgl=True) as page,
    ):
        page.go(address)
        until(page, DRAWN, "the map")
        now = page.run("softib.state.drawn")
        assert now >= 0 and page.run(down) == 0
        slide(page, 0)
        until(page, f"softib.state.drawn === {-int(first * 1e3)}", "the map of the first day")
        assert page.run(down) == 0 and page.run("softib.map.doc.name.length") == 14
        slide(page, 2)
        until(
            page,
            f"softib.state.drawn < 0 && softib.state.drawn !== {-int(first * 1e3)} && {down} === 1",
            "the pulled cable, black",
        )
        assert "now" not in page.run("document.getElementById('clock').textContent")
        slide(page, 3)
        until(page, f"softib.state.drawn === {now}", "the end of the slider: now")
        assert page.complaints() == []


def test_a_graphics_card_gets_more_to_draw(page: Browser) -> None:
    """No graphics card is here: a context that says that it is one is believed, and the processor's own is not."""
    assert page.run("softib.map.plenty") == 1
    page.run("""
        const asked = WebGL2RenderingContext.prototype.getParameter;
        WebGL2RenderingContext.prototype.getParameter = function (name) {
            return name === 0x9246 ? "ANGLE (NVIDIA, NVIDIA H200 Direct3D11)" : asked.call(this, name);
        };
        softib.map.draw(softib.map.doc);
        WebGL2RenderingContext.prototype.getParameter = asked;
        0""")
    assert page.run("softib.map.plenty") == 5
    until(page, "softib.map.graph.order > 0", "the map")
    assert page.complaints() == []


@pytest.fixture(scope="module")
def twins(tmp_path_factory) -> Iterator[Browser]:
    """A file in which two switches and two hosts have names that people take for one; 20 m of fibre at one port."""
    folder = tmp_path_factory.mktemp("twins")
    (folder / "twins.net").write_text(TWINS)
    with serving(str(folder / "twins.net")) as address, Browser(folder, webgl=True) as found:
        found.go(address)
        until(found, DRAWN, "the map")
        yield found


def test_a_file_opens_on_its_findings_without_a_slider(twins: Browser) -> None:
    until(twins, "document.querySelector('.finding') !== null", "a finding")
    seen = "(id => getComputedStyle(document.getElementById(id)).display !== 'none')"
    assert [twins.run(f"{seen}('{i}')") for i in ("findings", "time", "clock", "jobs")] == [True, False, False, False]
    assert twins.run("document.getElementById('by').value") == "findings" == twins.run("softib.map.by")
    options = twins.run("[...document.querySelectorAll('#by option:not([hidden])')].map(o => o.value).join()")
    assert options == "findings"
    assert (
        twins.run("[...document.querySelectorAll('#views button:not([hidden])')].map(b => b.dataset.view).join()")
        == "map,errors,modules"
    )


def test_a_tiny_fabric_is_drawn_whole(twins: Browser) -> None:
    """Each circle is inside the picture, with room for its name: nodes grow with the steps of a small map."""
    circles = twins.run("""(() => {
      const { renderer, graph } = softib.map, { width, height } = renderer.getDimensions();
      return graph.nodes().map((n) => {
        const shown = renderer.getNodeDisplayData(n), at = renderer.framedGraphToViewport(shown);
        const radius = renderer.scaleSize(shown.size);
        return [at.x - radius, at.y - radius, width - at.x - radius, height - at.y - radius, radius];
      });
    })()""")
    assert len(circles) == 5
    assert min(min(c[:4]) for c in circles) >= 0 and max(c[4] for c in circles) < 60, circles


def test_two_nodes_of_one_name_are_shown_apart_and_a_path_joins_them(twins: Browser) -> None:
    page = twins
    names = page.run("softib.map.doc.name")
    assert len(set(names)) == 5 and "LEAF 1 (0x0002c90000000002)" in names
    page.click("#search")
    page.type("node")
    until(page, "document.querySelectorAll('#hits li').length === 2", "both hosts")
    assert len(set(page.run("[...document.querySelectorAll('#hits li')].map(l => l.textContent)"))) == 2
    page.run("document.getElementById('search').value = ''; document.getElementById('hits').hidden = true; 0")
    page.click("#tab-path")
    a, b = (n for n in names if n.startswith("node"))
    for box, name in (("from", a), ("to", f"{b}[1]")):
        page.run(f"document.getElementById('{box}').value = {json.dumps(name)}; 0")
    page.click("#explain button")
    until(page, "document.querySelectorAll('#answer ol li').length === 4", "the hops")
    assert len(page.run("[...softib.map.marked].map(i => softib.map.doc.name[i])")) == 5
    page.run(
        f"softib.map.onNode(softib.map.doc.name.indexOf({json.dumps(a)}), true); document.getElementById('tab-node').click(); 0"
    )
    assert page.complaints() == []


def test_tables_are_sorted_filtered_and_lead_to_the_node(page: Browser) -> None:
    cells = "[...document.querySelectorAll('#rows tbody tr')].map(r => r.cells[0].textContent)"
    page.click("[data-view=errors]")
    until(page, f"{cells}.length === 126", "all ports with a cable")
    page.click('#rows [data-sort="node"]')
    until(page, "document.querySelector('#rows th[aria-sort=ascending]') !== null", "an order")
    until(page, f"{cells}[0] === 'host-0001[1]'", "by name")
    page.click('#rows [data-sort="node"]')
    until(page, f"{cells}[0].startsWith('spine-4')", "the other way round")
    page.click("#filter")
    page.type("leaf-3")
    until(page, f"{cells}.length === 16", "eight ports and their peers")
    page.click("#rows .place")
    until(page, "!document.getElementById('node').hidden && document.querySelector('#node h2') !== null", "its node")
    place = page.run(f"{cells}[0]")
    until(page, f"document.querySelector('#node h2').textContent === {json.dumps(place.partition('[')[0])}", "that one")
    page.click("#node .place")
    until(page, f"document.querySelector('#node h2').textContent !== {json.dumps(place.partition('[')[0])}", "its peer")
    page.click("[data-view=modules]")
    until(page, "document.getElementById('sum').textContent !== ''", "modules, or that there are none")
    page.resize(390, 800, mobile=True)
    for view in ("errors", "modules", "map"):
        page.click(f"[data-view={view}]")
        until(page, shown(view), f"the view {view}")
        assert page.run("document.documentElement.scrollWidth") <= 390, view
    page.resize(1280, 900)
    assert page.complaints() == []


def shown(view: str) -> str:
    """Whether ``view`` is what the page shows; of a table, with its answer: rows, or their number, 0."""
    pressed = f"document.querySelector('[data-view={view}][aria-pressed=true]') !== null"
    return pressed if view == "map" else f"{pressed} && document.getElementById('sum').textContent !== ''"


MARKUP = (
    "<img src=x onerror=pwned=1>",
    "</script><script>pwned=1</script>",
    "<b id=pwned>",
    "'\"><svg onload=pwned=1>",
)
"""Names that a page which makes HTML of them would run."""


def test_names_are_never_markup(tmp_path: Path) -> None:
    """In the map, tables, findings, search, paths and the report."""
    text = TWINS
    for old, new in zip(('"spine"', '"leaf-1"', '"LEAF 1"', '"node"'), MARKUP, strict=True):
        text = text.replace(old, '"' + new.replace('"', "") + '"')
    (tmp_path / "f.net").write_text(text)
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(json.dumps({MARKUP[0]: [MARKUP[3].replace('"', "")], MARKUP[1]: ["x"]}))
    safe = "window.pwned === undefined && document.querySelector('#pwned, img[src=x], [onload], [onerror]') === null"
    with serving(str(tmp_path / "f.net"), "--jobs", str(jobs)) as address, Browser(tmp_path, webgl=True) as page:
        page.go(address)
        until(page, DRAWN, "the map")
        assert MARKUP[0] in page.run("softib.map.doc.name") and page.run(safe)
        for view in ("errors", "modules", "map"):
            page.click(f"[data-view={view}]")
            until(page, shown(view), f"the view {view}")
            assert page.run(safe), view
        for tab in ("jobs", "path", "node"):
            page.click(f"#tab-{tab}")
            until(page, f"!document.getElementById('{tab}').hidden", f"the tab {tab}")
            assert page.run(safe), tab
        page.click("#search")
        page.type("img")
        until(page, "document.querySelectorAll('#hits li').length === 1", "one hit")
        page.key("Enter")
        until(page, f"document.querySelector('#node h2')?.textContent === {json.dumps(MARKUP[0])}", "its name as text")
        assert page.run(safe) and page.complaints() == []
        page.go(f"{address}report")
        until(page, "document.getElementById('live') !== null", "the report")
        assert page.run(safe) and page.complaints() == []
