"""A served map in a browser that is dragged: what tests and bench/web_map.py share."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.render.browser import Browser

FRESH = "window.softib && window.softib.state.fresh > 0"
DRAWN = f"!!({FRESH} && softib.map.scene && softib.map.scene.nodes.size > 0)"


@contextlib.contextmanager
def serving(source: str, *more: str, program: tuple[str, ...] = ("-m", "softib", "serve")) -> Iterator[str]:
    """The address of a server of ``source``; ``program``: what Python runs."""
    child = subprocess.Popen(
        [sys.executable, *program, source, "--port", "0", *more],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert child.stderr is not None
    try:
        line = child.stderr.readline()
        while line and " at http://" not in line:  # kernels that are compiled first
            line = child.stderr.readline()
        assert " at http://" in line
        yield line.rpartition(" at ")[2].strip()
    finally:
        child.terminate()
        assert child.wait(20) == 0
        child.stderr.close()


def until(page: Browser, script: str, what: str) -> None:
    for _ in range(1200):
        if page.run(script):
            return
        time.sleep(0.05)
    raise AssertionError(f"not seen: {what}")


def camera(page: Browser, ratio: float) -> None:
    """Place the camera above the middle of the map, and wait until the map is drawn there."""
    page.run(f"softib.map.renderer.getCamera().setState({{x: 0.45, y: 0.5, ratio: {ratio}}}), 0")
    at_rest(page)


AT_REST = (
    "(m => !m.hold && m.drawn !== null && !m.moved && !m.renderer.getCamera().isAnimated() && !m.renderer.renderFrame)"
    "(softib.map.moving)"
)


def at_rest(page: Browser) -> None:
    """Wait until the camera rests, and what is to be seen from there was chosen and drawn."""
    before = page.run("softib.map.moving.later(), softib.map.moving.draws")
    until(page, f"softib.map.moving.draws > {before} && {AT_REST}", "the map at rest")


@dataclass(frozen=True)
class Drag:
    """``frames``: milliseconds of the clock between frames while the map was dragged, the shortest first;
    ``frame_ms``: processor time of the page a frame."""

    frames: list[float]
    frame_ms: float


def pan(page: Browser, ratio: float) -> Drag:
    """Drag the map until it rests again."""
    camera(page, ratio)
    begin_s = page.cpu_s()
    page.run(
        "window.gaps = []; window.dragged = true; window.before = performance.now();"
        "(function each() { const now = performance.now(); gaps.push(now - window.before); window.before = now; if (window.dragged) requestAnimationFrame(each); })(); 0"
    )
    mouse = {"button": "left", "buttons": 1}
    page.call("Input.dispatchMouseEvent", type="mousePressed", x=450, y=300, clickCount=1, **mouse)
    for i in range(60):
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=450 + 3 * i, y=300 + i, **mouse)
        time.sleep(0.016)
    page.call("Input.dispatchMouseEvent", type="mouseReleased", x=630, y=360, button="left", buttons=0, clickCount=1)
    at_rest(page)
    frames = sorted(page.run("window.dragged = false, gaps.slice(2)"))
    return Drag(frames, (page.cpu_s() - begin_s) * 1e3 / len(frames))
