"""Hosts whose adapters all carry one NodeDescription: the host's name, without the ``mlx5_0``
behind it.

Cards of one host may each have a SystemImageGUID of their own, so the description alone holds the
host together. It does so where hosts agree: nearly all descriptions of a form (``node-#``) are
carried by the same number of adapters. A maker's default, which many hosts carry, is one
description and no host.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MIN_HOSTS", "SAME", "HostDescription", "host_descriptions"]

SAME = 0.9
"""Share of the hosts of a kind that must have one number of adapters."""
MIN_HOSTS = 5
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class HostDescription:
    """A description of ``form`` (``node-#``) that ``carriers`` adapters carry, where hosts of this
    form have ``usual``."""

    form: str
    usual: int
    carriers: int

    @property
    def is_one_host(self) -> bool:
        """False where more adapters carry it than a host has: then two hosts have one name."""
        return self.carriers <= self.usual


def host_descriptions(adapters: Iterable[str]) -> dict[str, HostDescription]:
    """The descriptions in ``adapters`` (one of each channel adapter) that are names of hosts, not
    of single adapters."""
    carriers = Counter(adapters)
    forms: dict[str, list[str]] = {}
    for name in carriers:
        if (form := _NUMBER.sub("#", name)) != name:
            forms.setdefault(form, []).append(name)
    most = {form: Counter(carriers[n] for n in names).most_common(1)[0] for form, names in forms.items()}
    alike = {form for form, (usual, agree) in most.items() if usual >= 2 and agree >= SAME * len(forms[form])}
    sure = [most[form][0] for form in alike if most[form][1] >= MIN_HOSTS]
    # Where a site names its hosts so, a few hosts of another form (two logins) are believed as well.
    kept = [form for form in forms if form in alike and most[form][0] <= max(sure, default=0)]
    return {n: HostDescription(form, most[form][0], carriers[n]) for form in kept for n in forms[form]}
