"""Checks of public functions and classes: an argument of a wrong type, or an unknown attribute, raises a one-line
error. Calls inside softib are not checked."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from softib.errors import InputError, WrongCall
from softib.plural import counted

__all__ = ["Suggests", "check_choice", "check_fields", "checked", "checked_methods", "totals"]


class Suggests:
    """Base class: an unknown attribute raises :class:`AttributeError` with similar names; arguments
    of methods are checked against their annotations."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        checked_methods(cls)

    def __getattr__(self, name: str) -> Any:
        from softib.errors import nearest

        kind = type(self).__name__
        names = [n for n in dir(type(self)) if not n.startswith("_")]
        similar = [] if name.startswith("_") else nearest(name, names)
        hint = f"did you mean {', '.join(similar)}?" if similar else f"it has {', '.join(names)}"
        raise AttributeError(f"{kind} has no {name!r}; {hint}", name=name, obj=self)


def totals(names: list[str]) -> str:
    """Return a text with counts: ``2 errors, 1 info`` for severities, ``2 cable-moved`` for kinds."""
    several = {"error": "errors", "warning": "warnings"}
    counts = [(n, names.count(n)) for n in dict.fromkeys(names)]
    return ", ".join(counted(count, n, several.get(n, n)) for n, count in counts)


Test = Callable[[Any], bool]
SOURCES = ("source", "before", "after")
"""Arguments that are not checked here: :func:`softib.load` checks them, and its errors explain common mistakes."""


def _texts(value: Any) -> bool:
    return isinstance(value, Sequence | set) and not isinstance(value, str | bytes) and all(_path(v) for v in value)


def _path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


KINDS: dict[str, tuple[str, Test]] = {
    "str": ("text", lambda v: isinstance(v, str)),
    "os.PathLike[str]": ("a path", _path),
    "int": ("a whole number", lambda v: isinstance(v, Integral) and not isinstance(v, bool)),
    "float": ("a number", lambda v: isinstance(v, Real) and not isinstance(v, bool)),
    "bool": ("True or False", lambda v: isinstance(v, bool)),
    "Sequence[str]": ("a list of texts", _texts),
    "Sequence[str | os.PathLike[str]]": ("a list of paths", _texts),
    "Mapping": ("a mapping", lambda v: isinstance(v, Mapping)),
    "Sequence": ("a list", lambda v: isinstance(v, Sequence) and not isinstance(v, str | bytes)),
    "Callable": ("a function", callable),
    "None": ("None", lambda v: v is None),
}
"""Part of an annotation → (its name in messages, test of a value)."""


@functools.cache
def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with type checks: it raises :class:`InputError` for an argument of a
    wrong type, for example ``check: severity is text, not 5``."""
    signature = inspect.signature(function)
    kinds = {name: _kinds(p.annotation, function) for name, p in signature.parameters.items() if name not in SOURCES}
    called_as = function.__qualname__.removesuffix(".__init__").rpartition(".<locals>.")[2]

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        try:
            given = signature.bind(*args, **named).arguments
        except TypeError as error:
            raise WrongCall(f"{called_as}(): {error}") from None
        for name, value in given.items():
            if name not in kinds:
                continue
            several = signature.parameters[name].kind in (
                inspect.Parameter.VAR_POSITIONAL,
                inspect.Parameter.VAR_KEYWORD,
            )
            for one in (value.values() if isinstance(value, dict) else value) if several else (value,):
                _check(_of_class(called_as, args), name, one, kinds[name])
        return function(*args, **named)

    return called


def _of_class(called_as: str, args: Sequence[Any]) -> str:
    """Return the name of a method with the class of its object, which may inherit it."""
    owner, dot, method = called_as.rpartition(".")
    inherited = dot and args and owner in {c.__name__ for c in type(args[0]).__mro__}
    return f"{type(args[0]).__name__}.{method}" if inherited else called_as


def checked_methods(cls: type) -> None:
    """Apply :func:`checked` to every public method of ``cls``."""
    for name, thing in list(vars(cls).items()):
        if inspect.isfunction(thing) and not name.startswith("_"):
            setattr(cls, name, checked(thing))


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass like :func:`checked` checks arguments."""
    cls = type(instance)
    for field in dataclasses.fields(instance):
        _check(cls.__name__, field.name, getattr(instance, field.name), _kinds(field.type, cls.__init__))


def _check(function: str, name: str, value: Any, kinds: Sequence[str]) -> None:
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"{function}: {name} has a NUL character")
    if not kinds or any(_is(value, kind) for kind in kinds):
        if name == "seed" and isinstance(value, Integral) and value < 0:
            raise InputError(f"{function}: seed={value} is negative; use 0 or more")
        return
    names = list(dict.fromkeys(KINDS[kind][0] if kind in KINDS else f"a softib.{kind}" for kind in kinds))
    wanted = " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
    raise InputError(f"{function}: {name} must be {wanted}, not {_shown(value)}")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | bytes | int | float | None) else f"a {type(value).__name__}"


def _kinds(annotation: Any, function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parts of an annotation; empty if one is of an unknown class."""
    if not isinstance(annotation, str):
        return ()
    parts: list[str] = []
    for part in _parts(annotation):
        alias, head = function.__globals__.get(part), part.partition("[")[0]
        if isinstance(alias, str):
            parts += _kinds(alias, function) or ("",)
        else:
            parts.append(
                part if part in KINDS or part in _classes() else head if head in KINDS and head != part else ""
            )
    return () if "" in parts else tuple(parts)


def _parts(annotation: str) -> list[str]:
    """Split ``A | B[C | D]`` into ``A`` and ``B[C | D]``."""
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


@functools.cache
def _classes() -> frozenset[str]:
    """Return the names of public classes that are checked. (Functions with a Fabric argument check it themselves.)"""
    import softib

    return frozenset(name for name in softib.__all__ if name[0].isupper()) - {"Fabric"}


def _is(value: Any, kind: str) -> bool:
    return KINDS[kind][1](value) if kind in KINDS else any(c.__name__ == kind for c in type(value).__mro__)


def check_choice(engine: str | None, lfts: str | None, guid_files: Mapping[str, str | None] | None = None) -> None:
    """Raise :class:`InputError` if both an engine and tables are given, or GUID files together with tables, and
    ``UnknownName`` if the engine does not exist."""
    from softib.routing.engine import chain

    if engine is not None and lfts is not None:
        raise InputError("--engine computes forwarding tables and --lfts reads them from a file; use one of the two")
    if lfts is not None and any(v is not None for v in (guid_files or {}).values()):
        raise InputError("GUID files control an engine, but --lfts reads existing tables; use one of the two")
    if engine is not None:
        chain(engine)
