"""The log of ``softib sm run``: lines of JSON in a file, or short lines on stderr."""

from __future__ import annotations

import json
import logging
import time
from logging.handlers import RotatingFileHandler

from softib.errors import InputError, os_reason
from softib.foreign_text import shown

__all__ = ["LEVELS", "set_up_log"]

LEVELS = ("debug", "info", "warning", "error")
KEPT_FILES = 5
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _details(record: logging.LogRecord) -> dict[str, object]:
    return {k: v for k, v in vars(record).items() if k not in STANDARD}


class _Json(logging.Formatter):
    """Formats a record as one JSON object per line: time (UTC), level, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        head = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**head, **_details(record)}, default=str)


class _Short(logging.Formatter):
    """Formats a record as a short line, for example ``softib: sweep: sweep 1, nodes 136, …``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        details = ", ".join(f"{k} {v}" for k, v in _details(record).items())
        line = f"softib: {record.getMessage()}" + (f": {details}" if details else "")
        return shown(line)


def set_up_log(level: str, path: str | None, max_mb: int, to_stderr: bool) -> logging.Logger:
    """Return the logger of the manager. ``path``: file of JSON lines, rotated at ``max_mb`` MB (0: never); five older
    files are kept. Raises :class:`InputError` if it cannot be written."""
    log = logging.getLogger("softib.sm")
    log.setLevel(level.upper())
    log.propagate = False
    for old in list(log.handlers):
        log.removeHandler(old)
        old.close()
    if path is not None:
        try:
            handler = RotatingFileHandler(path, maxBytes=max_mb * 10**6, backupCount=KEPT_FILES, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot write the log: {os_reason(error)}") from None
        handler.setFormatter(_Json())
        log.addHandler(handler)
    if to_stderr:
        shown = logging.StreamHandler()
        shown.setFormatter(_Short())
        log.addHandler(shown)
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return log
