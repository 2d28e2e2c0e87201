"""The page as people use it: in Chromium, by mouse, finger and keyboard. Skips where no Chromium is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from softib.diags.finding import Finding, Severity
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import remove_cable
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.iba.constants import NodeType
from softib.render.html import to_html
from tests.render.browser import CHROMIUM, Browser
from tests.render.samples import finding, report_of, tree

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

LONG = "MF0;dc3-hall-2-row-17-rack-0042-position-33-"


def page_of(fabric: Fabric, path: Path, findings: tuple[Finding, ...]) -> Path:
    path.write_text(to_html(report_of(fabric, findings=findings)))
    return path


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return tree(12, 6, 4)


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, fabric: Fabric, tmp_path: Path) -> Browser:
    """A report of 12 leaves with an error at leaf-3[8] and a note about spine-1."""
    port = int(fabric.port(find_node(fabric, "leaf-3"), 8))
    note = int(fabric.port(find_node(fabric, "spine-1"), 3))
    found = (finding(fabric, port), finding(fabric, note, Severity.INFO))
    browser.events.clear()
    browser.resize(1280, 900)
    browser.open(page_of(fabric, tmp_path / "report.html", found))
    return browser


def test_nothing_is_asked_of_the_network_and_nothing_complains(page: Browser) -> None:
    page.click("[data-table=ports]")
    page.click("#zoom-in")
    assert [u for u in page.requests() if not u.startswith("file://")] == []
    assert page.complaints() == []


def test_findings_come_first(page: Browser) -> None:
    top = page.run(
        "['findings', 'fabric', 'tables'].map((i) => document.getElementById(i).getBoundingClientRect().top)"
    )
    assert top == sorted(top)
    assert page.run("document.querySelector('svg.fabric').classList.contains('by-fault')")


def test_a_place_of_a_finding_leads_to_the_drawing(page: Browser) -> None:
    page.click("#findings-table .place")
    assert page.run("document.querySelector('#chosen h3').textContent") == "leaf-3[8]"
    assert "leaf-3[8] is bad" in page.run("document.querySelector('#chosen').textContent")
    hit = page.run("Array.from(document.querySelectorAll('.boxes .hit'), (b) => b.querySelector('title').textContent)")
    assert len(hit) == 2 and hit[0].startswith("leaf-3:") and hit[1].startswith("spine-1:")
    assert page.run("document.querySelectorAll('.links .hit').length") == 1
    row = "document.querySelector('#chosen .here')"
    assert page.run(f"{row}.textContent").startswith("8spine-1[4]")
    frame = page.run(
        "(() => { const r = document.getElementById('stage').getBoundingClientRect(); return [r.top, r.bottom]; })()"
    )
    assert frame[0] < 900 and frame[1] > 0, "the drawing is in view"


def test_a_place_without_a_cable_shows_the_missing_one(browser: Browser, tmp_path: Path) -> None:
    fabric = tree(12, 6, 4)
    remove_cable(fabric, "leaf-3[8]")
    ports = [int(fabric.port(find_node(fabric, name), number)) for name, number in (("leaf-3", 8), ("spine-1", 4))]
    places = tuple(p for port in ports for p in finding(fabric, port).where)
    gone = Finding("missing-cable", Severity.WARNING, places, "no cable")
    browser.resize(1280, 900)
    browser.open(page_of(fabric, tmp_path / "gone.html", (gone,)))
    browser.click("#findings-table .place")
    assert browser.run("document.querySelectorAll('.links path.hit').length") == 1
    assert browser.run("document.querySelector('.links path.hit').classList.contains('ghost')")


def test_a_code_leads_to_what_it_means(page: Browser) -> None:
    page.click("#findings-table a")
    assert page.run("location.hash") == "#about-link-slow"
    assert page.run("document.getElementById('about').open")


def test_a_link_to_a_node_opens_it(page: Browser, fabric: Fabric, tmp_path: Path) -> None:
    guid = int(fabric.node_guid[find_node(fabric, "host-17")])
    page.open(tmp_path / "report.html", f"#node-{guid:016x}")
    assert page.run("document.querySelector('#chosen h3').textContent") == "host-17"


def test_zoom_by_buttons_wheel_and_keys(page: Browser) -> None:
    width = "Math.round(document.querySelector('svg.fabric').getBoundingClientRect().width)"
    before = page.run(width)
    page.click("#zoom-in")
    assert page.run(width) == pytest.approx(1.5 * before, abs=2)
    page.click("#zoom-all")
    assert page.run(width) == before
    page.wheel("#stage", -240, ctrl=True)
    wide = page.run(width)
    assert wide > 1.5 * before
    page.wheel("#stage", -240, ctrl=False)
    assert page.run(width) == wide, "the wheel alone scrolls"
    page.run("document.querySelector('[data-box]').focus()")
    page.key("0", "0")
    assert page.run(width) == before
    page.key("+", "+")
    assert page.run(width) > before


def test_dragging_pans(page: Browser) -> None:
    for _ in range(3):
        page.click("#zoom-in")
    left = page.run("document.getElementById('stage').scrollLeft")
    x, y = page.centre("#stage")
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 120, y=y, button="left", buttons=1)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=x + 120, y=y, button="left", clickCount=1)
    assert page.run("document.getElementById('stage').scrollLeft") == pytest.approx(left - 120, abs=2)
    assert page.run("document.getElementById('chosen').hidden"), "a drag is no click"


def test_keys_go_from_box_to_box(page: Browser) -> None:
    name = "document.activeElement.querySelector('title').textContent.split(':')[0]"
    page.run("document.querySelector('[data-box=\"0\"]').focus()")
    assert page.run(name) == "leaf-0"
    page.key("ArrowRight")
    assert page.run(name) == "leaf-1"
    page.key("ArrowUp")
    assert page.run(name).startswith("spine-")
    page.key("ArrowDown")
    assert page.run(name).startswith("leaf-")
    page.key("Enter", "\r")
    assert page.run("document.querySelector('#chosen h3').textContent") == page.run(name)
    page.key("Escape")
    assert page.run("document.getElementById('chosen').hidden")


def test_search_finds_switches_and_hosts(page: Browser) -> None:
    page.click("#find")
    page.type("host-1")
    told = page.run("Array.from(document.querySelectorAll('#found button'), (b) => b.textContent)")
    assert told[:3] == ["host-1", "host-10", "host-11"]
    page.key("Enter", "\r")
    assert page.run("document.querySelector('#chosen h3').textContent") == "host-1"
    assert page.run("document.querySelector('.boxes .hit title').textContent").startswith("leaf-0:")


def test_a_box_and_a_link_show_their_cables(page: Browser) -> None:
    page.click('[data-box="3"] rect')
    assert page.run("document.querySelector('#chosen h3').textContent") == "leaf-3"
    ports = page.run("Array.from(document.querySelectorAll('#chosen tbody tr'), (r) => +r.cells[0].textContent)")
    assert ports == list(range(1, 11))
    page.run("document.querySelector('.links path.f2').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    rows = page.run(
        "Array.from(document.querySelectorAll('#chosen tbody tr'), (r) => r.cells[0].textContent + r.cells[1].textContent)"
    )
    assert rows == ["leaf-3[8]spine-1[4]"]


@pytest.mark.parametrize(
    ("table", "rows", "column", "first", "last"),
    [
        ("switches", 16, 0, "leaf-0", "spine-3"),
        ("hosts", 72, 0, "host-0[1]", "host-71[1]"),
        ("ports", 12 * 10 + 4 * 12 + 72, 0, "host-0[1]", "spine-3[12]"),
        ("cables", 72 + 48, 1, "host-0[1]", "spine-3[12]"),
    ],
)
def test_tables_sort_by_every_heading(page: Browser, table: str, rows: int, column: int, first: str, last: str) -> None:
    page.click(f"[data-table={table}]")
    head = f"#grid th:nth-child({column + 1}) button"
    cell = f"document.querySelector('#grid tbody tr').cells[{column}].textContent"
    page.click(head)
    assert page.run(cell) == first, "numbers in names sort by value"
    page.click(head)
    assert page.run(cell) == last
    assert page.run("document.querySelector('#grid th[aria-sort=descending]').cellIndex") == column
    assert page.run("document.getElementById('rows-shown').textContent").split(" of ")[1] == f"{rows} rows"
    while not page.run("document.getElementById('more-rows').hidden"):
        page.click("#more-rows")
    assert page.run("document.querySelectorAll('#grid tbody tr').length") == rows


def test_the_filters(page: Browser) -> None:
    page.click("#table-filter")
    page.type("spine")
    assert page.run("document.querySelectorAll('#grid tbody tr').length") == 4
    page.click("[data-severity=error]")
    shown = "Array.from(document.querySelectorAll('#findings-table tbody tr')).filter((r) => !r.hidden).length"
    assert page.run(shown) == 1
    page.click("#findings-filter")
    page.type("nothing of this kind")
    assert page.run(shown) == 0
    assert page.run("document.querySelector('#findings .empty').hidden") is False


def test_a_phone_with_long_names(browser: Browser, tmp_path: Path) -> None:
    """390 pixels: the page is not wider than the screen, and a finger chooses."""
    fabric = tree(12, 6, 4, prefix=LONG)
    port = int(fabric.port(find_node(fabric, f"{LONG}leaf-3"), 8))
    browser.events.clear()
    browser.resize(390, 844, mobile=True)
    browser.open(page_of(fabric, tmp_path / "phone.html", (finding(fabric, port),)))
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.tap("#findings-table .place")
    assert browser.run("document.querySelector('#chosen h3').textContent") == f"{LONG}leaf-3[8]"
    browser.tap("#chosen .close")
    assert browser.run("document.getElementById('chosen').hidden")
    browser.click("[data-table=ports]")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    letters = browser.run("parseFloat(getComputedStyle(document.querySelector('#grid td')).fontSize)")
    assert letters >= 13
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(page: Browser, scheme: str) -> None:
    """Contrast of 4.5 to 1 for text and 3 to 1 for the labels of controls that are off (WCAG 2.1, 1.4.3)."""
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    script = """
    (() => {
      const rgb = (t) => { const p = t.match(/[\\d.]+/g).map(Number); return p.length > 3 ? p : [...p, 1]; };
      const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
      const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 1) { return c; } } return [255, 255, 255, 1]; };
      const seen = {};
      document.querySelectorAll('main *, header *').forEach((e) => {
        if (e.closest('svg') || !Array.from(e.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.offsetParent) { return; }
        const a = light(rgb(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e).slice(0, 3));
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), name = e.tagName + '.' + e.className;
        if (ratio < 4.5) { seen[name] = Math.min(seen[name] || 99, ratio); }
      });
      return seen;
    })()"""
    low = page.run(script)
    page.call("Emulation.setEmulatedMedia", features=[])
    assert low == {}, json.dumps(low)


def test_a_page_without_switches(browser: Browser, tmp_path: Path) -> None:
    """Two adapters on one cable: no drawing, and nothing that breaks for the lack of it."""
    b = FabricBuilder("pair")
    ca = b.nodes(2, NodeType.CA, 1, desc=["a", "b"])
    b.links(ca[0], 1, ca[1], 1)
    browser.events.clear()
    browser.resize(1280, 900)
    browser.open(page_of(b.build(), tmp_path / "pair.html", ()))
    browser.click("[data-table=cables]")
    browser.click("#grid .place")
    assert browser.run("document.querySelectorAll('#grid tbody tr').length") == 1
    assert browser.complaints() == []


def test_a_comparison_on_a_telephone(browser: Browser, tmp_path: Path) -> None:
    """390 pixels: the page is not wider than the screen, and every figure has its name."""
    import softib

    compared = softib.compare(
        softib.generate("fat-tree", radix=4, levels=2), "shift:1MB", networks=["HDR"], layer="fluid"
    )
    compared.to_html(tmp_path / "comparison.html")
    browser.resize(390, 844, mobile=True)
    browser.open(tmp_path / "comparison.html")
    assert browser.run("document.documentElement.scrollWidth") <= 390
    cells = "Array.from(document.querySelectorAll('tbody tr:not(.why) td + td'))"
    assert browser.run(f"{cells}.every((c) => c.dataset.label || !c.textContent.trim())")
    browser.resize(1280, 900)
