"""Writes docs/schemas/ from the code; a test fails when they differ."""

from __future__ import annotations

import json
from pathlib import Path

from softib.fabric.topologies.schema import fabric_schema
from softib.workloads.file import workload_schema

FOLDER = Path(__file__).with_name("schemas")


def texts() -> dict[str, str]:
    """Text of each schema by the name of its file."""
    schemas = {"fabric": fabric_schema(), "workload": workload_schema()}
    return {f"{name}.schema.json": json.dumps(s, indent=1, ensure_ascii=False) + "\n" for name, s in schemas.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
