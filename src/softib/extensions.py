"""Entry points: additions of installed packages to softib.

A package declares an entry point in a group of :data:`GROUPS`. Names that softib or another package already uses are
refused. A package that fails to import, or declares a taken name or a value of the wrong type, causes one
:class:`~softib.errors.SoftibWarning` with its name; the other extensions stay usable.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from softib.errors import InputError, SoftibError, SoftibWarning

__all__ = ["GROUPS", "Extension", "blamed_on", "extensions"]

GROUPS = {
    "softib.checks": "check",
    "softib.congestion_control": "congestion control",
    "softib.engines": "routing engine",
    "softib.exporters": "round exporter",
    "softib.readers": "file format",
    "softib.topologies": "topology",
    "softib.workloads": "workload pattern",
}
"""Maps each group of entry points to the word for an entry of it in messages."""


@dataclass(frozen=True)
class Extension:
    """``value`` of the entry point ``name``, which the distribution ``package`` declares."""

    name: str
    package: str
    value: Any


def extensions(group: str, taken: Container[str], check: Callable[[str, Any], None]) -> dict[str, Extension]:
    """Return the usable entry points of ``group`` by name, in the order of their packages' names.

    ``taken``: names that softib itself uses. ``check(name, value)`` raises
    :class:`~softib.errors.InputError` for a value that ``group`` cannot use. Warns with one line
    for each entry point that is left out.
    """
    from importlib.metadata import entry_points

    usable: dict[str, Extension] = {}
    declared = [(point.dist.name if point.dist else "?", point.name, point) for point in entry_points(group=group)]
    for package, name, point in sorted(declared, key=lambda one: one[:2]):
        owner = "softib" if name in taken else usable[name].package if name in usable else None
        try:
            if owner is not None:
                raise InputError(f"{owner} has a {GROUPS[group]} of this name; rename this one")
            with redirect_stdout(sys.stderr):  # stdout may be a document of --json
                value = point.load()
            check(name, value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an import may raise anything, even SystemExit
            warnings.warn(f"package {package}: {GROUPS[group]} {name} is left out: {_reason(error)}", SoftibWarning, 2)
        else:
            usable[name] = Extension(name, package, value)
    return usable


@contextmanager
def blamed_on(package: str, part: str) -> Iterator[None]:
    """Turn an exception raised inside an extension into an :class:`~softib.errors.InputError` of one line that
    names the package ("": softib's own, whose exceptions pass). Errors of softib pass as they are."""
    try:
        yield
    except SoftibError:
        raise
    except (Exception, SystemExit) as error:
        if not package:
            raise
        raise InputError(f"package {package}: {part} failed: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return one line: the message of an error of softib; otherwise with the type of the
    exception."""
    text = " ".join(str(error).split())
    return text if isinstance(error, SoftibError) else f"{type(error).__name__}{f': {text}' if text else ''}"
