"""Writes docs/schemas/ from the code; a test fails when they differ."""

from __future__ import annotations

import json
from pathlib import Path

from softib.fabric.topologies.schema import fabric_schema

FOLDER = Path(__file__).with_name("schemas")


def texts() -> dict[str, str]:
    """Text of each schema by the name of its file."""
    return {"fabric.schema.json": json.dumps(fabric_schema(), indent=1, ensure_ascii=False) + "\n"}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
