"""Pictures of ``softib serve`` in Chromium: docs/img/serve*.png (``make web`` and Debian's chromium are needed).

A tree of 1,024 hosts with a missing cable and three jobs; the load is what the static layer gives for the jobs' traffic, kept as ``softib exporter --history`` keeps counters.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.render.browser import Browser  # noqa: E402

import softib  # noqa: E402
from softib.analysis.jobs.files import read_jobs  # noqa: E402
from softib.analysis.jobs.links import JobLinks, place_jobs  # noqa: E402
from softib.analysis.pipeline import quietly  # noqa: E402
from softib.analysis.routed import routed  # noqa: E402
from softib.monitor.fabric_ports import optics, ports_of, rows_of  # noqa: E402
from softib.monitor.history import History  # noqa: E402
from softib.monitor.intervals import Interval  # noqa: E402
from softib.sim import static  # noqa: E402
from softib.source import load  # noqa: E402

JOBS = """\
train: ["host-[0001-0320]"]
cfd: ["host-[0289-0544]"]
assimilation: ["host-[0601-0900]"]
"""
ROUNDS = 20
EVERY_S = 15
BEGIN_S = 1_790_000_000
"""A clock time; the pictures show it."""
DESK, PHONE = (1440, 900), (390, 844)


def main(folder: Path) -> list[Path]:
    """Draws all pictures into ``folder``; their paths."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        fabric, jobs, history = write_sources(work)
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "softib",
                "serve",
                str(fabric),
                "--port",
                "0",
                "--jobs",
                str(jobs),
                "--history",
                str(history),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TZ": "UTC"},
        )
        assert child.stderr is not None
        try:
            address = next(line for line in child.stderr if " at http://" in line).rpartition(" at ")[2].strip()
            with Browser(work, *DESK, webgl=True) as page:
                page.call("Emulation.setTimezoneOverride", timezoneId="UTC")
                return pictures(page, address, folder)
        finally:
            child.terminate()
            child.wait(30)
            child.stderr.close()


def pictures(page: Browser, address: str, folder: Path) -> list[Path]:
    """Light by load, dark by jobs, near one leaf by findings, and a phone."""
    page.go(address)
    settled(page)
    page.run("document.documentElement.dataset.theme === 'light' || document.getElementById('theme').click(), 0")
    drawn = [picture(page, folder / "serve.png")]
    page.click("#theme")
    choose(page, "jobs")
    page.click("#tab-jobs")
    drawn.append(picture(page, folder / "serve-jobs-dark.png"))
    page.click("#theme")
    choose(page, "findings")
    page.click("#tab-findings")
    page.click(".finding")
    time.sleep(1)
    drawn.append(picture(page, folder / "serve-finding.png"))
    page.run("softib.map.mark([]), softib.map.renderer.getCamera().setState({x: 0.5, y: 0.5, ratio: 1}), 0")
    choose(page, "load")
    page.resize(*PHONE, mobile=True)
    drawn.append(picture(page, folder / "serve-phone.png"))
    return drawn


def choose(page: Browser, by: str) -> None:
    page.run(
        f"(() => {{ const by = document.getElementById('by'); by.value = '{by}'; by.dispatchEvent(new Event('change')); }})()"
    )


def settled(page: Browser) -> None:
    for _ in range(400):
        if page.run("!!(window.softib && softib.state.fresh > 0 && softib.map.scene && softib.map.scene.nodes.size)"):
            return
        time.sleep(0.05)
    raise SystemExit("the map is not there")


def picture(page: Browser, path: Path) -> Path:
    time.sleep(2)
    path.write_bytes(base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"]))
    return path


def write_sources(work: Path) -> tuple[Path, Path, Path]:
    """The fabric, the jobs and the history."""
    fabric, jobs, history = work / "cluster.yaml", work / "jobs.yaml", work / "history"
    made = softib.generate("fat-tree", radix=16, levels=3, name="cluster").to_yaml()
    fabric.write_text(made + 'faults:\n- {kind: remove-cable, cable: "leaf-40[12]"}\n')
    jobs.write_text(JOBS)
    found = routed(load(str(fabric)), None, None, quietly)
    links = place_jobs(found.fabric, found.graph, found.lft, read_jobs(jobs))
    keep_history(links, history)
    return fabric, jobs, history


def keep_history(links: JobLinks, folder: Path) -> None:
    """Rounds in which each job sends in random permutations, as much of the time as a sine says."""
    f = links.fabric
    rows = rows_of(f)
    ports, level = ports_of(f, rows), optics(f, rows)
    kept, rng = History(folder, keep_days=0), np.random.default_rng(1)
    for i in range(ROUNDS):
        busy = np.zeros(f.sizes.ports)
        for j, job in enumerate(links.jobs):
            mine = rng.permutation(job.ends)
            share = 0.25 + 0.2 * np.sin(i / 3 + 2 * j)
            load = static.loads(links.network, mine, np.roll(mine, -1)).load
            np.add.at(busy, links.port, share * load)
        words = (np.minimum(busy[rows], 1.0) * level["rate_gbps"] * 1e9 * EVERY_S / 32).astype(np.uint64)
        waits = (np.maximum(busy[rows] - 0.7, 0.0) * 1e9).astype(np.uint64)
        end = np.full(len(rows), (BEGIN_S + EVERY_S * (i + 1)) * 10**9, np.int64)
        increase = {"port_xmit_data": words, "port_xmit_wait": waits}
        known = {name: np.ones(len(rows), bool) for name in increase}
        kept.append(
            ports,
            Interval(
                f.node_guid[f.port_node[rows]], ports.portnum, end - EVERY_S * 10**9, end, increase, known, dict(level)
            ),
        )


if __name__ == "__main__":
    for path in main(Path(__file__).parent / "img"):
        print(path)
