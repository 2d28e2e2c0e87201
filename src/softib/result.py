"""The model of a result: a dataclass whose fields are the only declaration of its content.

A subclass of :class:`Result` declares each field once: name, type, a line of text below it, and its special
properties in :func:`key`. JSON, JSON Schema (``docs/make_schemas.py``), table, text
and the view of a notebook are derived from that. A result that is a document of ``--json`` names it in
``document``; docs/stability.md explains when a version changes.
"""

from __future__ import annotations

import ast
import functools
import html
import inspect
import operator
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal, TypeVar, cast

__all__ = [
    "HIDDEN",
    "Key",
    "Result",
    "also",
    "columns",
    "document",
    "field_types",
    "html_table",
    "json_type",
    "key",
    "plain",
    "schema_id",
    "without_none",
]

VERSIONS: dict[str, int] = {}
"""Maps each document to its version, if that is above 1: it increases by one when a key is removed or changes its
meaning, not when a key is added."""

KEY = "softib"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Key:
    """Form in which a field is shown."""

    name: str = ""
    """Its key in JSON; empty: the field's name."""
    json: Callable[[Any], Any] | None = None
    """Function from the field's value to the JSON value."""
    type: Any = None
    """Type of the JSON value, if it differs from the field's annotation."""
    hidden: bool = False
    """Not in JSON."""
    optional: bool = False
    """The key is absent if the value is None."""
    flat: type[Result] | None = None
    """The value is a result, and its keys, as this class declares them, replace this key."""
    before: str = ""
    """The field before which its key is placed; empty: its own position, or for a property, after all fields."""
    label: str = ""
    """Its label in :meth:`Result.facts`; empty: it is not a fact."""
    text: Callable[[Any], str] | None = None
    """Function from the whole result to the text of the fact; if the text is empty, the fact is omitted."""


def _once(function: F) -> F:
    """Return :func:`functools.cache` of ``function`` (mypy does not consider a class hashable)."""
    return cast("F", functools.cache(function))


def key(name: str = "", **how: Any) -> dict[str, Any]:
    """Return the ``metadata`` of a field of a :class:`Result`: the arguments of :class:`Key`."""
    return {KEY: Key(name, **how)}


HIDDEN = key(hidden=True)
"""``metadata`` of a field that is not in JSON."""


def also(name: str = "", **how: Any) -> Callable[[F], F]:
    """Decorate a property or method of a :class:`Result` whose value is also in JSON, with the arguments of
    :class:`Key`. It is placed below ``@property``."""

    def declared(function: F) -> F:
        function.__dict__[KEY] = Key(name, **how)
        return function

    return declared


class Result:
    """Base of dataclasses whose fields are the keys of a document, or of a part of one."""

    document: ClassVar[str] = ""
    """The document of ``--json`` that this result is (docs/schemas has its schema); empty: it is a part of one."""
    table_columns: ClassVar[tuple[str, ...]] = ()
    """Fields that are columns of a table of such results; empty: all."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints: its keys as plain values, in the order of the fields; in a
        document they follow ``schema``."""
        return document(self.document, self) if self.document else self._keys()

    def _keys(self, cls: type[Result] | None = None) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for name, how in keys_of(cls or type(self)):
            value = getattr(self, name)
            if callable(value):
                value = value()
            if value is None and (how.optional or how.flat is not None):
                continue
            if how.flat is not None:
                document |= value._keys(how.flat)
            else:
                document[how.name or name] = plain(value if how.json is None or value is None else how.json(value))
        return document

    def facts(self) -> list[tuple[str, str]]:
        """Return (label, text) of the fields that have a label."""
        shown = ((how.label, how.text) for _, how in _declared(type(self)) if how.label and how.text is not None)
        return [(label, line) for label, text in shown if (line := text(self))]

    def _repr_html_(self) -> str:
        return html_table(("", ""), self.facts() or self._keys().items())


def schema_id(name: str) -> str:
    """Return ``softib/check/1``."""
    return f"softib/{name}/{VERSIONS.get(name, 1)}"


def document(name: str, result: Result | None = None, /, **body: Any) -> dict[str, Any]:
    """Return the document ``name`` of a result and of the keys in ``body``."""
    return {"schema": schema_id(name), **({} if result is None else result._keys()), **plain(body)}


@_once
def keys_of(cls: Any) -> tuple[tuple[str, Key], ...]:
    """Return (field or property, how it is shown) of the keys in JSON, in their order."""
    return tuple((name, how) for name, how in _declared(cls) if not how.hidden)


@_once
def _declared(cls: Any) -> tuple[tuple[str, Key], ...]:
    keys: list[tuple[str, Key]] = []
    of_fields = [(f.name, f.metadata.get(KEY, Key())) for f in _fields(cls)]
    for name, how in (*of_fields, *((n, f.__dict__[KEY]) for n, f in _properties(cls).items())):
        names = [other for other, _ in keys]
        keys.insert(names.index(how.before) if how.before in names else len(keys), (name, how))
    return tuple(keys)


def _fields(cls: Any) -> tuple[Field[Any], ...]:
    """Return the fields; none for a class whose keys are only properties."""
    return fields(cls) if is_dataclass(cls) else ()


def _properties(cls: type) -> dict[str, Any]:
    """Return functions of the class that :func:`also` decorates, by their names."""
    properties = {}
    for base in reversed(cls.__mro__):
        for name, thing in vars(base).items():
            function = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
            if KEY in getattr(function, "__dict__", {}):
                properties[name] = inspect.unwrap(function)
            else:
                properties.pop(name, None)
    return properties


def plain(value: Any) -> Any:
    """Return ``value`` in JSON's types: NaN and infinity become null, NumPy's scalars and arrays
    Python's, results their keys."""
    if isinstance(value, Result):
        return value.to_json()
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


def columns(results: Sequence[Result], cls: type[Result]) -> dict[str, list[Any]]:
    """Return the results as columns of a table: those that ``cls`` names. Lists become texts with
    commas."""
    how = dict(keys_of(cls))
    return {name: [_cell(one, name, how[name]) for one in results] for name in cls.table_columns or how}


def _cell(one: Result, name: str, how: Key) -> Any:
    value = getattr(one, name)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return plain(value if how.json is None or value is None else how.json(value))


def html_table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table of HTML, each cell escaped."""
    cell = lambda tag, value: f"<{tag} style='text-align:left'>{html.escape(str(value))}</{tag}>"
    body = "".join("<tr>" + "".join(cell("td", v) for v in row) + "</tr>" for row in rows)
    return f"<table><tr>{''.join(cell('th', h) for h in head)}</tr>{body}</table>"


def json_type(cls: type[Result], **first: Any) -> Any:
    """Return a TypedDict of ``first`` and the keys of ``cls``, from which pydantic makes a JSON
    Schema: every key is known, and has the text below its field."""
    from pydantic import ConfigDict
    from typing_extensions import TypedDict

    typed_dict: Any = TypedDict
    model = typed_dict(cls.__name__, {**first, **dict(_typed_keys(cls))})
    model.__doc__, model.__module__ = cls.__doc__, cls.__module__
    model.__pydantic_config__ = ConfigDict(extra="forbid")
    return model


def _typed_keys(cls: type[Result]) -> Iterator[tuple[str, Any]]:
    from typing import Annotated, NotRequired

    from pydantic import Field as Described

    texts, functions = _texts(cls), _properties(cls)
    declared = {f.name: f for f in _fields(cls)}
    for name, how in keys_of(cls):
        if how.flat is not None:
            yield from ((k, NotRequired[t] if how.optional else t) for k, t in _typed_keys(how.flat))
            continue
        kind = how.type or _evaluated(cls, declared.get(name), functions.get(name))
        typed = _of_json(without_none(kind) if how.optional else kind)
        text = texts.get(name) or (functions[name].__doc__ if name in functions else None)
        if text:
            typed = Annotated[typed, Described(description=inspect.cleandoc(text))]
        yield how.name or name, NotRequired[typed] if how.optional else typed


def without_none(kind: Any) -> Any:
    """Return the annotation ``kind`` without its ``None``."""
    return functools.reduce(operator.or_, (part for part in kind.__args__ if part is not type(None)))


def _evaluated(cls: type, field: Field[Any] | None, function: Any) -> Any:
    """Return the annotation of a field or property as a type."""
    if field is None:
        annotation, module = function.__annotations__["return"], function.__module__
    else:
        owner = next(c for c in cls.__mro__ if field.name in inspect.get_annotations(c))
        annotation, module = field.type, owner.__module__
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(vars(sys.modules[module])))
    except NameError:
        return eval(annotation, _names(module))


@_once
def field_types(cls: Any) -> dict[str, Any]:
    """Return the type of each field of a result's class that is in JSON."""
    return {f.name: _evaluated(cls, f, None) for f in _fields(cls) if not f.metadata.get(KEY, Key()).hidden}


@_once
def _names(module: str) -> dict[str, Any]:
    """Return names of a module, including those that it imports only for type checkers."""
    names = dict(vars(sys.modules[module]))
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def _of_json(kind: Any) -> Any:
    """Return the annotation ``kind`` with each result class in it replaced by its TypedDict."""
    if isinstance(kind, type) and issubclass(kind, Result):
        return _json_types(kind)
    parts = getattr(kind, "__args__", ())
    new = tuple(map(_of_json, parts))
    if new == tuple(parts):
        return kind
    return kind.__origin__[new] if hasattr(kind, "__origin__") else functools.reduce(operator.or_, new)


@_once
def _json_types(cls: Any) -> Any:
    return json_type(cls, **({"schema": Literal[schema_id(cls.document)]} if cls.document else {}))


@_once
def _texts(cls: Any) -> dict[str, str]:
    """Return the string below each field, of the class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is object or not issubclass(base, Result) or base is Result:
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(body, ast.ClassDef)
        for node, below in zip(body.body, body.body[1:], strict=False):
            match node, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = text
    return texts
