"""The exception tree of softib: every error names the side at fault.

    SoftibError
    ├── InputError            the user's file, option or topology is wrong        → exit 2
    │   ├── UnknownFormat     no reader recognises the content
    │   ├── UnreadableFile    the path cannot be read, or no record in it can
    │   ├── TopologyError     an impossible topology was requested
    │   ├── UnknownName       an engine, node, format … that does not exist
    │   └── MissingLibrary    an optional library that the question needs
    ├── LimitError            correct, but more than InfiniBand or a table can hold  → exit 2
    ├── PeerError             the other side of a wire broke the protocol
    │   └── MadTimeout        … or did not answer
    └── SoftibBug             a bug of softib; please report

``str(error)`` is always one printable line of bounded length: what is wrong, where, and how to fix
it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping
from typing import Any

from softib.foreign_text import shown

__all__ = [
    "NO_DESCRIPTOR",
    "InputError",
    "LimitError",
    "MadTimeout",
    "MissingLibrary",
    "PeerError",
    "SoftibBug",
    "SoftibError",
    "SoftibWarning",
    "TopologyError",
    "UnknownFormat",
    "UnknownName",
    "UnreadableFile",
    "WrongCall",
    "broken_rule",
    "nearest",
    "os_reason",
    "wrong_value",
]

_RULES = {
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "string": "must be text",
    "dict": "must be a mapping (key: value)",
    "mapping": "must be a mapping (key: value)",
    "model": "must be a mapping (key: value)",
    "list": "must be a list",
    "tuple": "must be a list",
    "set": "must be a list",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "missing": "is missing",
    "extra_forbidden": "is not a name of this document",
}
"""Maps the type of a pydantic error, or the part of it before ``_type``, ``_parsing`` and ``_from_float``, to the
rule that was violated."""


class SoftibError(Exception):
    """Root of all exceptions that softib raises deliberately. ``exit_code``: exit code of the command line."""

    exit_code = 2

    def __str__(self) -> str:
        return shown(super().__str__())


class SoftibWarning(UserWarning):
    """A warning for the user, issued when the caller passed no callback for notices."""


class InputError(SoftibError):
    """The user's input is wrong."""


class WrongCall(InputError, TypeError):
    """A public function was called with an argument that it does not have, or without one that it needs."""


class UnknownFormat(InputError):
    """Raised if no reader recognises the content of a file."""


class UnreadableFile(InputError):
    """The path cannot be read, or holds no readable record."""


class TopologyError(InputError):
    """An impossible topology was requested."""


class UnknownName(InputError):
    """A name that does not exist. The message lists the most similar names."""

    def __init__(self, what: str, name: str, known: Iterable[str]):
        names = list(dict.fromkeys(known))
        similar = nearest(name, names)
        rest = ", …" if len(names) > 20 else ""
        hint = f"did you mean {', '.join(similar)}?" if similar else f"known: {', '.join(names[:20])}{rest}"
        super().__init__(f"no {what} named {name!r}; {hint if names else 'there is none'}")
        self.name = name


class MissingLibrary(InputError):
    """An optional library is not installed. The message names the extra that installs it."""


class LimitError(SoftibError):
    """Raised for more entries than a table or InfiniBand's address space can hold. The message
    names the limit."""


class PeerError(SoftibError):
    """The other side broke the protocol."""


class MadTimeout(PeerError):
    """The other side did not answer after all retries."""


class SoftibBug(SoftibError):
    """A broken invariant: a bug of softib."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h


def broken_rule(error: Mapping[str, Any]) -> str:
    """Return the rule of a pydantic error as text: ``must be at most 7``. The text of softib's own checks is
    returned unchanged."""
    kind = str(error["type"])
    rule = _RULES.get(kind) or _RULES.get(re.sub(r"_(type|parsing|from_float|attributes_type|parsing_size)$", "", kind))
    if rule is not None:
        limits = error.get("ctx") or {}
        return rule.format(**{k: f"{v:g}" if isinstance(v, float) else v for k, v in limits.items()})
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{text[:1].lower()}{text[1:]}"


def wrong_value(key: str, error: Mapping[str, Any]) -> str:
    """Return what is wrong with ``key``: ``sm.lmc: 9: must be at most 7``."""
    return f"{key}: {error['input']!r}: {broken_rule(error)}"


SUGGESTED = 3
"""Maximum number of similar names that an error offers."""
SIMILAR = 0.65
"""Minimum similarity of names (difflib's ratio): two exchanged letters of three are a misspelling, but ``ping`` is
not similar to ``plan``."""


NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, and of a machine, that has no descriptor left: a file that cannot be opened may exist."""
REMEDIES = {
    errno.EMFILE: "raise the limit with 'ulimit -n'",
    errno.ENOSPC: "free space on this file system or enlarge it",
    errno.EDQUOT: "free space or raise the quota",
}
"""Remedies for errors of the machine, by errno."""


def os_reason(error: OSError) -> str:
    """Return the system's words for ``error``, with the remedy where descriptors or disk space ran out."""
    remedy = REMEDIES.get(error.errno or 0, "")
    return f"{error.strerror or error}{remedy and f'; {remedy}'}"


def nearest(name: str, candidates: Iterable[str]) -> list[str]:
    """Return at most :data:`SUGGESTED` names of ``candidates`` that are most similar to ``name`` (possibly none).

    Names that differ only in case, separators or zeros before a number are the same: ``host-2`` means ``host-0002``,
    and no other name is offered then. Otherwise a name is similar if :data:`SIMILAR` of its letters are the same in the
    same order, or if it begins with the words of ``name``.
    """
    import difflib

    names = list(dict.fromkeys(candidates))
    wanted = _normalised(name)
    forms = {k: _normalised(k) for k in names}
    same = [k for k, form in forms.items() if form == wanted]
    if same:
        return same[:SUGGESTED]
    longer = [k for k, form in forms.items() if form.startswith(f"{wanted}-")]
    close = difflib.get_close_matches(name, names, n=SUGGESTED, cutoff=SIMILAR)
    return list(dict.fromkeys([*close, *longer]))[:SUGGESTED]


def _normalised(name: str) -> str:
    """Return ``name`` in a common form: small letters, one separator, numbers without leading
    zeros."""
    return re.sub(r"(?<![0-9])0+(?=[0-9])", "", re.sub(r"[-_. ]+", "-", name.lower()))
