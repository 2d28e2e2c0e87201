"""Reader of ``parameters.yaml``, which holds all measured and fitted parameters of libraries, processors and adapters:
value, unit, source, and the measurements to which the value was fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from types import MappingProxyType

from softib.errors import InputError

__all__ = ["Parameter", "Section", "section", "sections"]


@dataclass(frozen=True)
class Parameter:
    """``value`` in ``unit``; ``source`` as text; ``fitted_to``: names of the datasets to which the value was fitted,
    empty if it was published."""

    value: float
    unit: str
    source: str
    fitted_to: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """The parameters of one library or platform; ``section["latency"]`` returns a value."""

    name: str
    rows: Mapping[str, Parameter]

    def __getitem__(self, name: str) -> float:
        if name not in self.rows:
            raise InputError(f"{self.name} has no parameter {name}; it has {', '.join(sorted(self.rows))}")
        return self.rows[name].value

    def but(self, **values: float) -> Section:
        """Return a copy with other values. Raises :class:`InputError` for an unknown name."""
        rows = dict(self.rows)
        for name, value in values.items():
            self[name]
            rows[name] = replace(rows[name], value=float(value))
        return Section(self.name, MappingProxyType(rows))


@cache
def _read() -> Mapping[str, Section]:
    import yaml

    text = resources.files("softib.workloads").joinpath("parameters.yaml").read_text(encoding="utf-8")
    return {
        name: Section(
            name,
            MappingProxyType(
                {
                    k: Parameter(float(v["value"]), v["unit"], v["source"], tuple(v["fitted_to"]))
                    for k, v in rows.items()
                }
            ),
        )
        for name, rows in yaml.safe_load(text).items()
    }


def section(name: str) -> Section:
    """Return the parameters of ``name``. Raises :class:`InputError` for an unknown section."""
    sections = _read()
    if name not in sections:
        raise InputError(f"no parameters of {name}; use one of {', '.join(sorted(sections))}")
    return sections[name]


def sections() -> Mapping[str, Section]:
    """Return all sections by name."""
    return _read()
