"""The answer to an error: a status and one line in ``error``. If an error has ``details``, their keys are added."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from softib.errors import LimitError, PeerError, SoftibError, broken_rule
from softib.foreign_text import shown
from softib.tenants.changes import Forbidden, NotThere, Refused
from softib.tenants.store import Unavailable

__all__ = ["answer_errors"]

LOG = logging.getLogger("softib.tenants")
STATUS: tuple[tuple[type[SoftibError], int], ...] = (
    (NotThere, 404),
    (Forbidden, 403),
    (Refused, 409),
    (LimitError, 409),
    (Unavailable, 503),
    (PeerError, 503),
    (SoftibError, 400),
)
TYPES = {"str", "int", "float", "bool"}
"""Names of types in pydantic's location of an error in a union."""


def _name(loc: Sequence[int | str]) -> str:
    """Return the name of the field or header at ``loc``, without an index and without the type that pydantic adds for
    a union.
    """
    if loc[0] == "header":
        return str(loc[-1])
    names = [part for part in loc if isinstance(part, str) and part.isidentifier() and part not in TYPES]
    return names[-1] if names else str(loc[-1])


def answer_errors(app: FastAPI) -> None:
    """Turn softib's errors, and errors about invalid bodies, into answers."""

    @app.exception_handler(SoftibError)
    async def refused(request: Request, error: SoftibError) -> JSONResponse:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        LOG.warning("%s %s: %d: %s", request.method, shown(request.url.path), status, error)
        return JSONResponse({"error": str(error), **getattr(error, "details", {})}, status)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> JSONResponse:
        rules: dict[str, list[str]] = {}
        for e in error.errors()[:4]:
            name, rule = (
                ("", "the body is not JSON") if e["type"] == "json_invalid" else (_name(e["loc"]), broken_rule(e))
            )
            rules.setdefault(name, []).append(rule)
        text = "; ".join(
            (f"{name}: " if name else "") + " or ".join(dict.fromkeys(of_name)) for name, of_name in rules.items()
        )
        LOG.warning("%s %s: 400: %s", request.method, shown(request.url.path), text)
        return JSONResponse({"error": text}, 400)

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        text = str(error.detail)
        if text in ("Not Found", "Method Not Allowed"):  # the framework's, of a path without a call
            text = f"{request.method} {request.url.path} is not a call here; /openapi.json below the prefix lists them"
        LOG.warning("%s %s: %d: %s", request.method, shown(request.url.path), error.status_code, text)
        return JSONResponse({"error": text}, error.status_code)
