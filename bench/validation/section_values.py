"""Other values for the parameters of a section, as a fit tries them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from softib.workloads.parameters import Section

__all__ = ["with_values"]


def with_values(section: Section, **values: float) -> Section:
    """Return ``section`` with other values. Raises :class:`InputError` for a name that it does not have."""
    rows = dict(section.rows)
    for name, value in values.items():
        section[name]
        rows[name] = replace(rows[name], value=float(value))
    return Section(section.name, MappingProxyType(rows))
