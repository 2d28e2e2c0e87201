"""Writes docs/schemas/ from the code; a test fails when they differ.

``fabric.schema.json`` says what a fabric.yaml holds; each other file what a document of ``--json`` holds
(:mod:`softib.result`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from softib.cli.documents import DOCUMENTS, model_of
from softib.fabric.topologies.spec_models import fabric_schema
from softib.result import schema_id
from softib.workloads.file import workload_schema

FOLDER = Path(__file__).with_name("schemas")


def document_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one document: every key is known, and descriptions are the texts below the fields."""
    made = TypeAdapter(model_of(name)).json_schema(mode="serialization")
    _without_titles(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{schema_id(name)}", **made}


def _without_titles(node: Any) -> None:
    """pydantic gives every key a title that repeats its name."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for value in node.values():
            _without_titles(value)
    elif isinstance(node, list):
        for value in node:
            _without_titles(value)


def _in_one_line(node: Any) -> None:
    """Descriptions come from docstrings, with their line ends."""
    if isinstance(node, dict):
        if isinstance(node.get("description"), str):
            node["description"] = " ".join(node["description"].split())
        for value in node.values():
            _in_one_line(value)
    elif isinstance(node, list):
        for value in node:
            _in_one_line(value)


def texts() -> dict[str, str]:
    """Text of each schema by the name of its file."""
    schemas = {
        "fabric": fabric_schema(),
        "workload": workload_schema(),
        **{name: document_schema(name) for name in DOCUMENTS},
    }
    for schema in schemas.values():
        _in_one_line(schema)
    return {f"{name}.schema.json": json.dumps(s, indent=1, ensure_ascii=False) + "\n" for name, s in schemas.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
