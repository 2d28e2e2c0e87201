"""Writes docs/schemas/ from the code; a test fails when they differ.

``fabric.schema.json`` says what a fabric.yaml holds; each other file what a document of ``--json`` holds
(:mod:`softib.render.document_types`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

from softib.fabric.topologies.spec_models import fabric_schema
from softib.render.document_types import (
    acceptance,
    common,
    manager,
    report,
    routing,
    running,
    simulation,
)
from softib.render.documents import VERSIONS, schema_id
from softib.workloads.file import workload_schema

FOLDER = Path(__file__).with_name("schemas")
TYPES = {
    **common.DOCUMENTS, **running.RUNNING_DOCUMENTS,
    **manager.MANAGER_DOCUMENTS, **acceptance.ACCEPTANCE_DOCUMENTS,
    "route": routing.Route, "report": report.Report,
    "simulate": simulation.Simulate, "replay": simulation.Replay,
    "compare": simulation.Compare,
    "sweep": simulation.Sweep,
}  # fmt: skip

for _module in (
    acceptance,
    common,
    manager,
    report,
    routing,
    running,
    simulation,
):
    for _type in vars(_module).values():
        if is_typeddict(_type):
            _type.__pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def document_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one document: every key is known, and descriptions are the docstrings of the types."""
    made = TypeAdapter(TYPES[name]).json_schema(mode="serialization")
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
        "fabric": fabric_schema(), "workload": workload_schema(), **{name: document_schema(name) for name in VERSIONS},
    }  # fmt: skip
    for schema in schemas.values():
        _in_one_line(schema)
    return {f"{name}.schema.json": json.dumps(s, indent=1, ensure_ascii=False) + "\n" for name, s in schemas.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
