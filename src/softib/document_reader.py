"""The reader of documents: it makes a :class:`~softib.result.Result` from the JSON of
:meth:`~softib.result.Result.to_json`, using the same declaration of its fields."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from softib.errors import InputError
from softib.result import Result, field_types, keys_of, without_none

__all__ = ["read_result"]

R = TypeVar("R", bound=Result)


def read_result(cls: type[R], document: Any, where: str) -> R:
    """Return the ``cls`` that ``document`` describes. Unknown keys are ignored: a later version may add keys.

    A field whose JSON differs from its value (``key(json=…)``) has the value of the JSON. Hidden fields have their
    defaults. Raises :class:`InputError` with ``where`` and the path of the key if a key is missing or has a wrong type.
    """
    return _result(cls, cls, document, where)


def _result(cls: type[R], declared: Any, document: Any, where: str) -> R:
    """Return ``declared``, the class that declares the keys (``cls`` or a base of it), from ``document``."""
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: {_shown(document)} is not an object")
    kinds = field_types(cls)
    init = {f.name for f in fields(cls) if f.init}  # type: ignore[arg-type]  # every Result with fields is a dataclass
    given: dict[str, Any] = {}
    for name, how in keys_of(declared):
        if name not in init:  # a property: derived again
            continue
        if how.flat is not None:
            if not how.optional or any((k.name or n) in document for n, k in keys_of(how.flat)):
                given[name] = _result(_result_class(kinds[name]), how.flat, document, where)
            elif how.optional:
                given[name] = None
            continue
        key = how.name or name
        if key in document:
            kind = how.type or kinds[name]
            kind = without_none(kind) if how.optional else kind  # the key of an absent value is absent
            given[name] = _value(kind, document[key], f"{where}: {key}")
        elif how.optional:
            given[name] = None
        else:
            raise InputError(f"{where}: key {key!r} is missing")
    return cls(**given)


def _result_class(kind: Any) -> type[Any]:
    return next(part for part in (kind, *get_args(kind)) if isinstance(part, type) and issubclass(part, Result))


def _value(kind: Any, value: Any, where: str) -> Any:
    """Return ``value`` as the annotation ``kind`` declares it."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return value
    if origin in (Union, types.UnionType):
        return _one_of(parts, value, where)
    if origin is Literal:
        if value not in parts:
            raise InputError(f"{where}: {_shown(value)} is not one of {', '.join(map(str, parts))}")
        return value
    if isinstance(kind, type) and issubclass(kind, Result):
        return read_result(kind, value, where)
    container = origin or kind
    if isinstance(container, type) and issubclass(container, Mapping):
        return _mapping(parts or (str, Any), value, where)
    if container in (list, Sequence, set, frozenset, tuple):
        return _sequence(list if container is Sequence else container, parts, value, where)
    return _scalar(kind, value, where)


def _one_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    problems = []
    for kind in kinds:
        if kind is not types.NoneType:
            try:
                return _value(kind, value, where)
            except InputError as problem:
                problems.append(problem)
    raise problems[0]


def _mapping(parts: tuple[Any, ...], value: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {_shown(value)} is not an object")
    key_kind, kind = parts
    try:
        return {int(k) if key_kind is int else k: _value(kind, v, f"{where}: {k}") for k, v in value.items()}
    except ValueError:
        raise InputError(f"{where}: a key is not a number") from None


def _sequence(container: type[Any], parts: tuple[Any, ...], value: Any, where: str) -> Any:
    if not isinstance(value, list | tuple):
        raise InputError(f"{where}: {_shown(value)} is not a list")
    if issubclass(container, tuple) and parts and parts[-1] is not Ellipsis:
        if len(value) != len(parts):
            raise InputError(f"{where}: a list of {len(value)}; it has {len(parts)} values")
        kinds: tuple[Any, ...] = parts
    else:
        kinds = (parts[0] if parts else Any,) * len(value)
    return container(_value(kind, v, f"{where}[{n}]") for n, (kind, v) in enumerate(zip(kinds, value, strict=True)))


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif kind in (str, bool):
        fits = isinstance(value, kind)
    else:
        raise TypeError(f"{where}: a document has no form for {kind!r}")
    if not fits:
        raise InputError(f"{where}: {_shown(value)} is not of type {kind.__name__}")
    return float(value) if kind is float else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
