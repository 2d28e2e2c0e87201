"""YAML without its traps: the values of YAML 1.2's core schema, and every mistake as one line.

``2:1`` is text (YAML 1.1 reads 121), ``1e-9`` a number, ``on`` and ``no`` are text, and so are a
date and digits beyond 64 bits. Tags other than the core schema's, and a tag on a value that it does
not fit, are errors.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from softib.errors import UnreadableFile

__all__ = ["CORE", "CoreSchema", "load_plain_yaml", "one_line"]

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
"""Tag → what its scalars look like; None: any text, or no scalar."""


class CoreSchema(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe loader with the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}


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


def load_plain_yaml(text: str, where: str, what: str) -> Any:
    """The document in ``text``, of the file ``where``, which should be a ``what``.

    Raises :class:`UnreadableFile`, one line, for every text that is not such YAML.
    """
    try:
        return yaml.load(text, Loader=CoreSchema)  # a safe loader with fewer tags
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UnreadableFile(
            f"{where}{line}: not a {what}: {one_line(error.problem or error.context or 'no YAML')}"
        ) from None
    except RecursionError:
        raise UnreadableFile(f"{where}: not a {what}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:  # a character that YAML forbids; a number of 5,000 digits
        raise UnreadableFile(f"{where}: not a {what}: {one_line(str(error))}") from None


def one_line(text: str) -> str:
    """``text`` without line ends, at most 200 characters."""
    return " ".join(text.split())[:200]
