"""The JSON Schema of a fabric.yaml, from the models and parameter tables that check one: editors
complete and mark by it."""

from __future__ import annotations

from typing import Any

from softib.fabric.topologies.params import Kind, Parameter
from softib.fabric.topologies.registry import KINDS
from softib.fabric.topologies.spec_models import FabricFile

__all__ = ["fabric_schema"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {
    "whole": ("integer",),
    "list": ("array",),
    "whole or list": ("integer", "array"),
    "ratio": ("number", "string"),
    "yes/no": ("boolean",),
    "text": ("string",),
}
"""JSON types of each form of a parameter."""
IMPORT = {"type": "object", "required": ["import"], "properties": {"import": {"type": "string"}}}
OF_THE_FILE = ("name", "generation")
"""Parameters that stand at the top of the file, for every kind."""


def fabric_schema() -> dict[str, Any]:
    """The schema, draft 2020-12: the same keys, types and bounds as
    :func:`softib.fabric.topologies.spec.load_fabric_yaml` checks (what depends on several values
    together, such as a radix that no tree of so many hosts has, only that function knows)."""
    schema = FabricFile.model_json_schema()
    schema["properties"]["topology"] = {"oneOf": [*map(_kind, KINDS.values()), IMPORT]}
    schema["properties"]["import"] = {"type": "string", "description": "short for topology: {import: FILE}"}
    del schema["required"]
    schema["oneOf"] = [{"required": ["topology"]}, {"required": ["import"]}]
    return {"$schema": DIALECT, **schema, "title": "softib fabric.yaml"}


def _kind(kind: Kind) -> dict[str, Any]:
    named = [p for p in kind.all_parameters if p.name not in OF_THE_FILE]
    return {
        "type": "object",
        "title": kind.name,
        "description": kind.doc,
        "properties": {"kind": {"const": kind.name}, **{p.name: _parameter(p) for p in named}},
        "required": ["kind", *(p.name for p in named if p.required)],
        "additionalProperties": False,
    }


def _parameter(p: Parameter) -> dict[str, Any]:
    types = TYPES[p.form]
    found: dict[str, Any] = {"description": p.doc, "type": types[0] if len(types) == 1 else list(types)}
    if "integer" in types:
        found |= {"minimum": p.low, "maximum": p.high}
    if "array" in types:
        found["items"] = {"type": "integer", "minimum": p.low, "maximum": p.high}
    return found if p.default is None else {**found, "default": p.default}
