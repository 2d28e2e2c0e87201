"""YAML as a person writes it, with the line of every key, and without its traps.

Plain scalars follow YAML 1.2: ``2:1`` is text (1.1 reads it as 121), ``1e-9`` is a number (1.1:
text), ``on`` and ``no`` are text. A key given twice, anchors and aliases are errors: a fabric file
is small, and nothing in it is guessed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from softib.errors import InputError, UnreadableFile
from softib.input_files import read_text, shown_name
from softib.plain_yaml import CORE, CoreSchema, one_line

__all__ = ["Lines", "load_yaml"]

MAX_BYTES = 256 << 10
MAX_DEPTH = 50

Path_ = tuple[str | int, ...]


class Lines(dict[Path_, int]):
    """Line (from 1) of every key and list item by its path, such as ``("faults", 0, "ber")``."""

    def of(self, path: Path_) -> int:
        """Line of ``path``, or of the nearest thing above it that has one."""
        while path and path not in self:
            path = path[:-1]
        return self.get(path, 1)


class _Loader(yaml.SafeLoader):
    """The core schema, with the lines of keys: PyYAML's own parser, whose nodes hold them for plain
    scalars too."""

    yaml_implicit_resolvers = CoreSchema.yaml_implicit_resolvers


def load_yaml(path: Path, what: str = "fabric file", keys: str = "name: and topology:") -> tuple[dict[str, Any], Lines]:
    """The mapping in ``path`` and the lines of its keys. ``what`` it is, and ``keys`` that it
    begins with, are for messages.

    Raises :class:`UnreadableFile` (no file, not text) or :class:`InputError` (not YAML, not a
    mapping), with the line.
    """
    text = read_text(path, what, MAX_BYTES)
    path = Path(shown_name(path))
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise InputError(f"{path}:1: not a {what}: it should begin with keys such as {keys}")
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
        raise InputError(f"{path}: nested too deeply for a {what}") from None
    except ValueError as error:  # an explicit tag on a scalar that it does not fit
        raise InputError(f"{path}: {one_line(str(error))}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return data, lines


def _walk(path: Path, node: yaml.Node, at: Path_, lines: Lines, seen: set[int]) -> None:
    line = node.start_mark.line + 1
    if id(node) in seen:
        raise InputError(
            f"{path}:{line}: the value of this anchor is used twice; write it out, a fabric file has no aliases"
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
                raise InputError(f"{path}:{where}: a key must be a word, such as name or topology")
            _check_tag(path, key)
            inner = (*at, key.value)
            if inner in lines:
                raise InputError(f"{path}:{where}: {key.value} stands twice; first on line {lines[inner]}")
            lines[inner] = where
            _walk(path, value, inner, lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _walk(path, value, (*at, i), lines, seen)


def _check_tag(path: Path, node: yaml.Node) -> None:
    """Only the tags that plain values have: an explicit one may not fit its value, or make objects."""
    pattern = CORE.get(node.tag)
    if node.tag not in CORE or (pattern and not (isinstance(node, yaml.ScalarNode) and pattern.fullmatch(node.value))):
        raise InputError(
            f"{path}:{node.start_mark.line + 1}: a fabric file has no tags such as {one_line(node.tag)}; write the "
            f"value alone"
        )
