"""A page in a real browser: Chromium without a window, driven over its DevTools protocol through two pipes.

``--remote-debugging-pipe`` speaks JSON that ends with a zero byte on file descriptors 3 and 4: no port, no further library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]

WEBGL = [
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--disable-gpu-compositing",
]
"""WebGL drawn by the processor, for machines without a graphics card; the page is put together by the processor too, as Chromium does there."""


class Browser:
    """One page of ``width`` × ``height`` CSS pixels. ``with Browser(tmp_path) as page: page.open(path)``."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900, webgl: bool = False):
        assert CHROMIUM
        self.flags = [*(f for f in FLAGS if f != "--disable-gpu"), *WEBGL] if webgl else FLAGS
        self.folder, self.size, self.count = folder, (width, height), 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        to_child, self.out = os.pipe()
        self.into, from_child = os.pipe()
        # 3 and 4 may be taken here; a shell puts the pipes there.
        script = f'exec 3<&{to_child} 4>&{from_child}; exec "$@"'
        home = {name: str(self.folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        self.child = subprocess.Popen(
            [
                "bash",
                "-c",
                script,
                "bash",
                CHROMIUM,
                *self.flags,
                f"--user-data-dir={self.folder / 'profile'}",
                "about:blank",
            ],
            env={**os.environ, **home},
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self.left = b""
        self.session = ""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        told = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = told["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        self.resize(*self.size)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self.call("Browser.close")
        for end in (self.out, self.into):
            os.close(end)
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One request and its answer; events that come in between are kept in ``events``."""
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        if self.session and not method.startswith(("Target.", "Browser.")):
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self.count:
                assert "error" not in message, (method, message)
                return dict(message["result"])
            self.events.append(message)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.left:
            more = os.read(self.into, 1 << 20)
            assert more, "the browser has gone"
            self.left += more
        line, self.left = self.left.split(b"\0", 1)
        return dict(json.loads(line))

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        """Size of the page in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file and wait until it is there."""
        self.go(f"{page.resolve().as_uri()}{fragment}")

    def go(self, url: str) -> None:
        """Load an address and wait until it is there."""
        self.call("Page.navigate", url=url)
        scheme = url.partition(":")[0]
        for _ in range(600):
            if self.run(f"document.readyState === 'complete' && location.protocol === '{scheme}:'"):
                return
            time.sleep(0.05)
        raise AssertionError("the page does not load")

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression; an exception in it fails."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def cpu_s(self) -> float:
        """Seconds of the processor that the page's main thread has worked on tasks since it was loaded."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(float(m["value"]) for m in metrics if m["name"] == "TaskDuration")

    def centre(self, selector: str) -> tuple[float, float]:
        """The middle of the first element of ``selector``, after scrolling it into view."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return x, y

    def click(self, selector: str) -> None:
        """A mouse click in the middle of an element."""
        x, y = self.centre(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def tap(self, selector: str) -> None:
        """A finger on an element."""
        x, y = self.centre(selector)
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, name: str, text: str = "") -> None:
        """One key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode={"Enter": 13}.get(name, 0),
            )

    def type(self, text: str) -> None:
        """Letters into what has the focus."""
        self.call("Input.insertText", text=text)

    def wheel(self, selector: str, delta: float, ctrl: bool) -> None:
        """Turn the wheel over an element."""
        x, y = self.centre(selector)
        self.call(
            "Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta, modifiers=2 if ctrl else 0
        )

    def complaints(self) -> list[str]:
        """Exceptions and errors that the page logged."""
        self.run("1")
        wrong = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                wrong.append(str(params["exceptionDetails"]))
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                wrong.append(params["entry"]["text"])
        return wrong

    def requests(self) -> list[str]:
        """URLs that the page asked for."""
        self.run("1")
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
