"""The answer to an error: a status and one line in ``error``. If an error has ``details``, their keys are added."""

from __future__ import annotations

import logging

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


def answer_errors(app: FastAPI) -> None:
    """Turn softib's errors, and errors about invalid bodies, into answers."""

    @app.exception_handler(SoftibError)
    async def refused(request: Request, error: SoftibError) -> JSONResponse:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        LOG.warning("%s %s: %d: %s", request.method, shown(request.url.path), status, error)
        return JSONResponse({"error": str(error), **getattr(error, "details", {})}, status)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> JSONResponse:
        text = "; ".join(
            "the body is not JSON" if e["type"] == "json_invalid" else f"{e['loc'][-1]}: {broken_rule(e)}"
            for e in error.errors()[:4]
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
