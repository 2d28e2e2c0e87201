"""How long the map of 11,664 hosts takes to load in Chromium, and what frames last while it is dragged. WebGL is drawn by the processor, so the load of the machine is printed too.

python bench/web_map.py [DRAGS]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.render.browser import Browser
from tests.web.panning import DRAWN, pan, serving, until

import softib


def main(drags: int) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fabric = folder / "large.yaml"
        fabric.write_text(softib.generate("fat-tree", radix=36, levels=3, hosts=11664).to_yaml())
        with serving(str(fabric)) as address, Browser(folder, webgl=True) as page:
            began = time.monotonic()
            page.go(address)
            until(page, DRAWN, "the map")
            print(f"loaded in {time.monotonic() - began:.1f} s at a load of {os.getloadavg()[0]:.1f}")
            print("how near   frames  middle ms  95 % ms  longest ms  level  nodes  bundles")
            for ratio in (1.0, 0.3, 0.08) * drags:
                frames = pan(page, ratio).frames
                level, nodes, edges = page.run(
                    "[softib.map.scene.level, softib.map.scene.nodes.size, softib.map.scene.a.length]"
                )
                late = frames[int(0.95 * len(frames))]
                print(
                    f"{ratio:8.2f} {len(frames):8} {frames[len(frames) // 2]:10.0f} {late:8.0f} {frames[-1]:11.0f} {level:6} {nodes:6} {edges:8}"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
