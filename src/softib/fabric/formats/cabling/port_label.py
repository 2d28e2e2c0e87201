"""What people print on ports, turned into port numbers.

The rule, in this order (``portnum_of_label`` alone; :mod:`.plan_match` first looks for the label in
the fabric itself):

1. ``7``, ``P7``, ``Port 7``, ``IB Port 7``, ``swp7``, ``Eth7``: port 7. Leading zeros do not count.
2. ``mlx5_3/1``, ``mlx5_3 port 1``, ``HCA-2/1``: port 1 of that adapter; the adapter alone means its
   port 1.
3. ``1/7``, ``IB1/7``, ``Port 1/7``: port 7 — the 1 is the slot of a one-module switch.
4. ``5/2`` with a first number above 1 and a second of 1 or 2: port 2 of twin-port cage 5 = port
   (5-1)·2+2 = 10.
5. ``1/5/2``, ``IB1/5/2``: the same behind the slot (Quantum-2 and split Quantum number them so; the
   NDR dump in the real files agrees for every port). ``swp5s1``: Cumulus counts halves from 0, so
   port (5-1)·2+1+1 = 10.
6. ``Blade 16_Port 2/20`` (UFM), ``L16/U2/P20`` (ibdiagnet), ``Leaf 16 U2 Port 20``: port 20 of chip
   2 of leaf card 16 of a director; ``S03/U1/P4``, ``Spine 3_Port 1/4`` name a spine card. One
   number behind the card (``L1/P5``) leaves the chip open.
7. Anything else has no number: ``ib0`` needs the host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from softib.fabric.formats.cabling.node_address import ADAPTER, CARD, card_of
from softib.iba.constants import MAX_SWITCH_PORTS

__all__ = ["PortLabel", "normal_label", "portnum_of_label"]


@dataclass(frozen=True)
class PortLabel:
    """``portnum`` 0 = the label has no number of its own; ``hca`` is the adapter it names
    (``mlx5_3``), else empty; ``card`` the card of a director that it names (``L16``, ``S3``), else
    empty, ``chip`` the chip there (0 = not stated): then ``portnum`` counts on that chip."""

    portnum: int = 0
    hca: str = ""
    card: str = ""
    chip: int = 0


_HCA = re.compile(rf"^(?P<hca>{ADAPTER}|ibp[0-9a-z]*_\d+)(?:\s*[/:, ]\s*(?:ib\s*)?(?:port|p)?\s*(?P<port>\d{{1,3}}))?$")
_CARD = re.compile(
    rf"^{CARD}(?:[\s/_,-]+u?0*(?P<chip>\d{{1,2}})(?=[\s/_,-]))?[\s/_,-]+(?:port\s*|p)?(?:(?P<of>\d{{1,2}})/)?0*(?P<port>\d{{1,3}})$"
)
_NUMBERS = re.compile(r"^(?:ib|eth|ethernet|swp|port|p)?\s*(?:port|p)?\s*#?\s*(?P<n>\d{1,3}(?:/\d{1,3}){0,2})$")
_HALF = re.compile(r"^swp(?P<cage>\d{1,3})s(?P<half>[01])$")


@lru_cache(maxsize=1 << 14)
def normal_label(text: str) -> str:
    """Lower case, single spaces, no surrounding quotes or brackets: labels that differ only so are
    the same."""
    return re.sub(r"\s+", " ", text.strip().strip("\"'[]()").strip()).lower()


@lru_cache(maxsize=1 << 14)
def portnum_of_label(text: str) -> PortLabel:
    """Apply the rule of the module to ``text``."""
    label = normal_label(text)
    if match := _HCA.match(label):
        return PortLabel(_valid(int(match.group("port") or 1)), match.group("hca").replace(" ", "-"))
    if match := _CARD.match(label):
        chip = int(match["chip"] or match["of"] or 0)
        if not (match["chip"] and match["of"]):
            return PortLabel(_valid(int(match["port"])), card=card_of(match["kind"], match["card"]), chip=chip)
    if match := _HALF.match(label):
        return PortLabel(_twin(int(match.group("cage")), int(match.group("half")) + 1))
    if match := _NUMBERS.match(label):
        return PortLabel(_from_numbers([int(n) for n in match.group("n").split("/")]))
    return PortLabel()


def _from_numbers(numbers: list[int]) -> int:
    if len(numbers) == 1:
        return _valid(numbers[0])
    if len(numbers) == 2:
        return _valid(numbers[1]) if numbers[0] == 1 else _twin(*numbers)
    slot, cage, half = numbers
    return _twin(cage, half) if slot == 1 else 0


def _twin(cage: int, half: int) -> int:
    return _valid((cage - 1) * 2 + half) if cage >= 1 and half in (1, 2) else 0


def _valid(portnum: int) -> int:
    return portnum if 1 <= portnum <= MAX_SWITCH_PORTS else 0
