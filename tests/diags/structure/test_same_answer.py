"""One fault has the same words in every form of file, whatever order the file has its nodes in: code, severity, ports and
message. Oracle: the forms against each other; each is written from the same list of cables."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from softib.diags.check import check
from softib.fabric.formats.registry import read, write
from tests.diags.structure.forms import HOSTS, Site, site

FORMS = ("ibnetdiscover", "iblinkinfo", "net_dump", "netlist", "topo")
ORDERS = 3
APART: dict[str, tuple[tuple[str, ...], ...]] = {
    # iblinkinfo prints what the ports could do; a netlist has no rates.
    "slow cable": (("ibnetdiscover", "net_dump", "topo"), ("iblinkinfo",)),
    # net_dump lists no adapter without a link; a .topo describes a plan, in which nothing is absent.
    "dead leaf": (("ibnetdiscover", "iblinkinfo", "netlist"), ("net_dump",)),
    "dead spine": (FORMS[:-1],),
    "missing adapter": (FORMS[:-1],),
}
"""Forms that agree on a fault, where not all have the same information about it."""


@dataclass
class Dump(Site):
    """A site whose nodes keep their GUIDs and LIDs in any order of ``ports``."""

    def guid(self, node: str, port: int = 0) -> int:
        return 0xB83FD20300000000 + 16 * (1 + sorted(self.ports).index(node)) + port

    def lid(self, node: str, port: int) -> int:
        return 2 * sorted(self.ports).index(node) + 1 + (port - 1 if self.ports[node] <= 2 else 0)

    def net_dump(self) -> str:
        out = []
        for node in (n for n, count in self.ports.items() if count > 2):
            out.append(f'"{node}", Mellanox, {self.guid(node):#018x}, LID {self.lid(node, 0)}')
            out.append(
                "#   : IB# : Sta  : PhysSta : MTU : LWA : LSA : Neighbor Guid : N# : NLID : Neighbor Description"
            )
            for port in range(1, self.ports[node] + 1):
                if (node, port) not in self.cables:
                    out.append(f"1/{port}/1 : {port} : DOWN : POLL : N/A : N/A : N/A : : : :")
                    continue
                (b, peer), rate = self.cables[node, port], {"EDR": "25", "HDR": "50"}[self.rate[node, port]]
                out.append(
                    f"1/{port}/1 : {port} : ACT : LINK UP : 5 : 4x : {rate} : {self.guid(b):#018x} : {peer} : "
                    f'{self.lid(b, peer)} : "{b}"'
                )
            out.append("")
        return "\n".join(out)

    def netlist(self) -> str:
        out = []
        for node, count in self.ports.items():
            out.append(f'{"Switch" if count > 2 else "Hca"} {count} "{node}"')
            out += [f'[{p}] "{b}"[{peer}]' for (a, p), (b, peer) in self.cables.items() if a == node]
            out.append("")
        return "\n".join(out)

    def answer(self, form: str, folder: Path) -> list[tuple[str, ...]]:
        """Code, severity, places and message of the findings in their order, with the names of hosts alone: a .topo
        has no blanks in names."""
        path = folder / f"site.{form}"
        if form == "topo":
            (folder / "site").write_text(self.ibnetdiscover())
            write(read(folder / "site").fabric, path)
        else:
            path.write_text(getattr(self, form)())
        return [
            tuple(
                re.sub(r"[ _]mlx5_0|/U1", "", x)
                for x in (f.code, f.severity.name, " ".join(map(str, f.where)), f.message)
            )
            for f in check(read(path).fabric)
        ]


def exchange(s: Dump, first: tuple[str, int], second: tuple[str, int]) -> None:
    """Exchange the plugs at two ports."""
    a, b = s.cables.pop(first), s.cables.pop(second)
    s.cables |= {first: b, b: first, second: a, a: second}


def lose(s: Dump, end: tuple[str, int]) -> None:
    del s.cables[s.cables.pop(end)]


def remove(s: Dump, node: str) -> None:
    for end in [e for e in s.cables if e[0] == node]:
        lose(s, end)
    del s.ports[node]


def shift(s: Dump) -> None:
    """The hosts of a leaf are one port further; the last one is on the first port."""
    peers = [s.cables["leaf-4", p] for p in range(1, HOSTS + 1)]
    for p in range(1, HOSTS + 1):
        s.join(("leaf-4", p), peers[p - 2])


def slow(s: Dump) -> None:
    a = ("leaf-3", 11)
    s.join(a, s.cables[a], "EDR")
    s.could |= {a, s.cables[a]}


FAULTS: dict[str, Callable[[Dump], object]] = {
    "swap of uplinks": lambda s: exchange(s, ("leaf-3", 11), ("leaf-6", 13)),
    "swap at spines": lambda s: exchange(s, ("spine-2", 3), ("spine-4", 12)),
    "swap of hosts": lambda s: exchange(s, ("leaf-3", 2), ("leaf-6", 5)),
    "two swaps": lambda s: (
        exchange(s, ("leaf-3", 11), ("leaf-6", 13)),
        exchange(s, ("spine-1", 1), ("spine-3", 16)),
    ),
    "shift": shift,
    "missing cable": lambda s: lose(s, ("leaf-5", 12)),
    "missing cables": lambda s: (lose(s, ("leaf-5", 12)), lose(s, ("leaf-2", 9)), lose(s, ("spine-4", 16))),
    "slow cable": slow,
    "dead leaf": lambda s: remove(s, "leaf-3"),
    "dead spine": lambda s: remove(s, "spine-2"),
    "missing adapter": lambda s: remove(s, "host-012 mlx5_0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_form_and_order_gives_the_same_findings(fault: str, tmp_path: Path) -> None:
    whole = site()
    for forms in APART.get(fault, (FORMS,)):
        answers = {}
        for form, order in itertools.product(forms, range(ORDERS)):
            dump = Dump(dict(whole.ports), dict(whole.cables), dict(whole.rate))
            FAULTS[fault](dump)
            for table in (dump.ports, dump.cables) if order else ():
                items = list(table.items())
                random.Random(order).shuffle(items)
                table.clear()
                table.update(items)
            answers[form, order] = dump.answer(form, tmp_path)
        first = answers[forms[0], 0]
        assert first, "the fault is found"
        assert answers == dict.fromkeys(answers, first)
