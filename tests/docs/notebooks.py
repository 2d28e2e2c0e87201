"""The notebooks of the documentation, and what they need."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NEEDS = {"rdma-and-counters": "ib_write_bw"}


def cells(notebook: Path) -> list[str]:
    """The texts of its code cells."""
    return ["".join(c["source"]) for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
