"""The documents that ``--json`` prints: each begins with ``schema``, its name and version.

What they hold is declared in :mod:`softib.render.document_types`, from which
``docs/make_schemas.py`` makes JSON Schemas. docs/stability.md says when a version changes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["VERSIONS", "document", "plain", "schema_id"]

VERSIONS = {
    "report": 1,
    "check": 1,
    "route": 1,
    "path": 1,
    "diff": 1,
    "convert": 1,
    "generate": 1,
    "status": 1,
    "fault": 1,
    "sm": 1,
    "doctor": 1,
    "simulate": 1,
    "replay": 1,
    "compare": 1,
    "sweep": 1,
    "accept": 1,
    "baseline": 1,
    "sm-run": 1,
    "sm-explain": 1,
    "sm-job": 1,
    "sm-config": 1,
    "convert-explain": 1,
    "down": 1,
    "listening": 1,
    "forget": 1,
    "top": 1,
    "baseline-record": 1,
    "compile": 1,
    "plan-design": 1,
    "plan-cables": 1,
    "plan-cost": 1,
    "plan-quote": 1,
    "plan-grow": 1,
    "advise": 1,
}
"""Document → its version: one more when a key goes or changes its meaning, not when one is added.
"""


def schema_id(name: str) -> str:
    """``softib/check/1``."""
    return f"softib/{name}/{VERSIONS[name]}"


def document(name: str, /, **body: Any) -> dict[str, Any]:
    """The document ``name`` (a key of :data:`VERSIONS`) of the keys in ``body``, as :func:`plain`
    values."""
    return {"schema": schema_id(name), **plain(body)}


def plain(value: Any) -> Any:
    """Only what JSON has: NaN and infinity become null, NumPy's scalars and arrays Python's."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not (value == value and abs(value) != float("inf")):
        return None
    if isinstance(value, set | frozenset):
        return sorted(plain(v) for v in value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value
