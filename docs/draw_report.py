"""Draws ``docs/img/report.png``, README's picture: the page of ``make demo`` in Chromium. ``make docs`` runs it.

python docs/draw_report.py
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.render.browser import CHROMIUM, Browser  # noqa: E402

PICTURE = ROOT / "docs" / "img" / "report.png"
SOURCE = "examples/superpod-127-faults.yaml"
SIZE = (1240, 1380)


def main() -> int:
    if CHROMIUM is None:
        print(f"Chromium is not installed; {PICTURE.relative_to(ROOT)} stays as it is")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        subprocess.run(
            [sys.executable, "-m", "softib", "report", SOURCE, "--html", str(page)],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1790000000"},
        )
        with Browser(Path(folder), *SIZE) as browser:
            browser.open(page)
            time.sleep(1)
            PICTURE.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
