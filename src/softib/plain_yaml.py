"""YAML with the values of YAML 1.2's core schema, in which every mistake is reported in one line.

``2:1`` is text (YAML 1.1 reads 121), ``1e-9`` a number, ``on`` and ``no`` are text, and so are a
date and digits beyond 64 bits. Tags other than the core schema's, and a tag that does not match its value, are errors.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from softib.errors import InputError, UnreadableFile
from softib.input_files import read_text, shown_name

__all__ = ["CORE", "CoreSchema", "Lines", "YamlFile", "load_plain_yaml", "load_yaml", "one_line"]

_TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,19})|0x[0-9a-fA-F]{1,16}", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
)
CORE: dict[str, re.Pattern[str] | None] = {
    **{_TAG + name: re.compile(pattern) for name, pattern, _ in _SCALARS},
    **{_TAG + name: None for name in ("str", "map", "seq")},
}
"""Maps each tag to the pattern of its scalars; None: any text, or no scalar."""


class CoreSchema(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe loader with the core schema of YAML 1.2. A key that appears twice in a mapping is an error."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Return the mapping of ``node``."""
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    problem = f"{one_line(key.value)} appears twice; remove one"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                keys.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


for _name, _pattern, _first in _SCALARS:
    CoreSchema.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _first)


def _constructor(tag: str) -> Any:
    construct = yaml.SafeLoader.yaml_constructors[tag]
    pattern = CORE[tag]

    def checked(loader: Any, node: yaml.Node) -> Any:
        fits = isinstance(node, yaml.ScalarNode) and (pattern is None or pattern.fullmatch(node.value))
        if pattern is not None and not fits:
            problem = f"{str(node.value)[:40]!r} is not of type {tag.removeprefix(_TAG)}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return construct(loader, node)

    return checked


CoreSchema.yaml_constructors = {
    None: yaml.SafeLoader.yaml_constructors[None],
    **{tag: _constructor(tag) if pattern else yaml.SafeLoader.yaml_constructors[tag] for tag, pattern in CORE.items()},
}


def load_plain_yaml(text: str, where: str, kind: str) -> Any:
    """Return the document in ``text``, from the file ``where``, which should be a ``kind``.

    Raises :class:`UnreadableFile`, one line, for every text that is not such YAML.
    """
    try:
        return yaml.load(text, Loader=CoreSchema)  # a safe loader with fewer tags
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UnreadableFile(
            f"{where}{line}: not a {kind}: {one_line(error.problem or error.context or 'no YAML')}"
        ) from None
    except RecursionError:
        raise UnreadableFile(f"{where}: not a {kind}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:  # a character that YAML forbids; a number of 5,000 digits
        raise UnreadableFile(f"{where}: not a {kind}: {one_line(str(error))}") from None


def one_line(text: str) -> str:
    """Return ``text`` without line ends, at most 200 characters."""
    return " ".join(text.split())[:200]


MAX_BYTES = 256 << 10
MAX_DEPTH = 50

Path_ = tuple[str | int, ...]


class Lines(dict[Path_, int]):
    """Line (from 1) of every key and list item by its path, for example ``("faults", 0, "ber")``."""

    def of(self, path: Path_) -> int:
        """Return the line of ``path``, or of its nearest ancestor that has one."""
        while path and path not in self:
            path = path[:-1]
        return self.get(path, 1)


class _Loader(yaml.SafeLoader):
    """The core schema, with the lines of keys: PyYAML's own parser, whose nodes have them for plain scalars too."""

    yaml_implicit_resolvers = CoreSchema.yaml_implicit_resolvers


class YamlFile(NamedTuple):
    """A YAML file whose content is a mapping."""

    data: dict[str, Any]
    lines: Lines
    """Lines of its keys."""


def load_yaml(path: Path, document: str = "fabric file", keys: str = "name: and topology:") -> YamlFile:
    """Return the mapping in ``path`` and the lines of its keys. ``document`` (its kind) and ``keys`` (with which it
    begins) are for messages.

    Raises :class:`UnreadableFile` (no file, not text) or :class:`InputError` (not YAML, not a
    mapping), with the line.
    """
    text = read_text(path, document, MAX_BYTES)
    path = Path(shown_name(path))
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            raise InputError(f"{path}: the file is empty; a {document} begins with keys like {keys}")
        if not isinstance(root, yaml.MappingNode):
            raise InputError(f"{path}:1: not a {document}: it should begin with keys like {keys}")
        lines = Lines()
        _walk(path, root, (), lines, set())
        data: dict[str, Any] = loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InputError(
            f"{path}:{line}: not YAML: {one_line(error.problem or error.context or 'unreadable')}"
        ) from None
    except yaml.YAMLError as error:
        raise UnreadableFile(f"{path}: not text: {one_line(str(error))}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply for a {document}") from None
    except ValueError as error:  # an explicit tag on a scalar that it does not match
        raise InputError(f"{path}: {one_line(str(error))}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return YamlFile(data, lines)


def _walk(path: Path, node: yaml.Node, at: Path_, lines: Lines, seen: set[int]) -> None:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise InputError(
            f"{path}:{line}: this anchor is used by an alias, which a fabric file cannot have; write the value twice"
        )
    if len(at) > MAX_DEPTH:
        raise InputError(f"{path}:{line}: nested too deeply for a fabric file")
    _check_tag(path, node)
    seen.add(id(node))
    lines.setdefault(at, line)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            where = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{path}:{where}: a key must be a word, for example name or topology")
            _check_tag(path, key)
            inner = (*at, key.value)
            if inner in lines:
                raise InputError(f"{path}:{where}: {key.value} appears twice, first on line {lines[inner]}; remove one")
            lines[inner] = where
            _walk(path, value, inner, lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _walk(path, value, (*at, i), lines, seen)


def _check_tag(path: Path, node: yaml.Node) -> None:
    """Accept only the implicit tags of plain values: an explicit tag may not match its value, or may create
    objects."""
    pattern = CORE.get(node.tag)
    if node.tag not in CORE or (pattern and not (isinstance(node, yaml.ScalarNode) and pattern.fullmatch(node.value))):
        raise InputError(
            f"{path}:{node.start_mark.line + 1}: a fabric file cannot have tags like {one_line(node.tag)}; write the "
            f"value alone"
        )
