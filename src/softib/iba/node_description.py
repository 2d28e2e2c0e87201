"""Location of a node, from its name: system, card and chip of a switch; host and adapter of a CA.

Forms of switch names in real dumps and lists:

* ``MF0;sys:MCS8500/L16/U2``, ``MF0;sys:CS7500/S03/U1``: chips in a director with MLNX-OS (chip 2 of
  leaf card 16, chip 1 of spine card 3). ``MF0;sys:MQM8700/U1``: a switch with one chip. SX6536 and
  IS5200 use the same forms.
* ``sys/L16/U2``, ``sys/leaf16/U2``, ``sys/U1``: names in ibdm and ibdiagnet. ``sys L16/U2``: a name
  as people write it.

Names of hosts are ``host mlx5_0``, ``host HCA-1`` (rdma-ndd's default), or ``host ibp11s0f0`` (the
interface, in UFM's lists). Parts of names are compared ignoring case and leading zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from softib.iba.constants import MAX_SWITCH_PORTS

__all__ = [
    "ADAPTER",
    "CARD",
    "NodeAddress",
    "PortLabel",
    "address_of",
    "card_of",
    "normal_label",
    "plain_name",
    "portnum_of_label",
    "split_host",
]

CARD = r"(?P<kind>line ?card|leaf|line|blade|slb|lc|l|spine|fabric|sfb|fc|s)[-_ ]?0*(?P<card>\d{1,3})"
"""Matches a card of a director: L for leaf (line) cards, S for spine (fabric) cards. sLB and sFB
are Voltaire's names.
"""
ADAPTER = (
    r"(?:mlx[45]|hfi1|qib|mthca|bnxt_re|irdma)_?(?:bond_)?\d+|hca[-_ "
    r"]?\d+|(?:ibp|ibs|rocep|roces|ibo)\d[0-9a-z]*(?:_\d+)?"
)
"""Matches names of RDMA devices and of their interfaces: mlx5_0, HCA-1, ibp11s0f0 (systemd's
predictable names)."""

_SPINES = ("spine", "fabric", "sfb", "fc", "s")
_SWITCH = re.compile(
    rf"^(?:mf\d+;)?(?P<system>[^:;]+?)(?::(?P<model>[^/;:]+?))?(?:[/ ]\s*{CARD})?(?:[/ ]\s*u0*(?P<chip>\d{{1,2}}))?$",
    re.IGNORECASE,
)
_HOST = re.compile(rf"^(?P<host>\S+)\s+(?P<adapter>{ADAPTER})$", re.IGNORECASE)


@dataclass(frozen=True)
class NodeAddress:
    """Location in a name. ``card`` is, for example, ``L16`` or ``S3``; ``chip`` is 0 if the name
    has no chip. ``spoken`` is the name without card and chip."""

    spoken: str
    card: str = ""
    chip: int = 0
    adapter: str = ""

    @property
    def system(self) -> str:
        """Return ``spoken`` in the form that is used to compare names."""
        return self.spoken.casefold()


def card_of(kind: str, number: str | int) -> str:
    """Return ``L16`` for ("Leaf", "016"). A card that is not a spine card is a leaf (line) card,
    for example UFM's ``Blade 16``."""
    return f"{'S' if kind.lower() in _SPINES else 'L'}{int(number)}"


def split_host(name: str) -> tuple[str, str] | None:
    """Return ``("host", "mlx5_0")`` for ``host mlx5_0``, or None if the text does not have this
    form."""
    match = _HOST.match(name)
    return (match["host"], match["adapter"]) if match else None


@lru_cache(maxsize=1 << 16)
def address_of(name: str) -> NodeAddress:
    """Return the address that ``name`` contains. If it contains none, the address consists of the
    whole name."""
    host = split_host(name)
    if host:
        return NodeAddress(host[0], adapter=plain_adapter(host[1]))
    match = _SWITCH.match(name)
    if match is None or not (match["model"] or match["kind"] or match["chip"] or name[:2].upper() == "MF"):
        return NodeAddress(name)
    card = card_of(match["kind"], match["card"]) if match["kind"] else ""
    return NodeAddress(match["system"], card, int(match["chip"] or 0))


def plain_adapter(text: str) -> str:
    """Return ``hca1`` for ``HCA-1``, the form that is used to compare adapters."""
    return re.sub(r"[-_ ]", "", text).lower()


@dataclass(frozen=True)
class PortLabel:
    """Contents of a port's label. ``portnum``: 0 if the label has no number. ``hca``: the adapter
    (``mlx5_3``) or empty. ``card``: the card of a director (``L16``, ``S3``) or empty. ``chip``:
    the chip on that card, 0 if not stated. If the chip is stated, ``portnum`` is the number of a
    port of this chip."""

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


_HYPHENS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-"))


def plain_name(text: str) -> str:
    """Return ``text`` in the form that is used to compare names: in lower case, and with each kind
    of hyphen as ``-``."""
    return text.translate(_HYPHENS).casefold()


@lru_cache(maxsize=1 << 14)
def normal_label(text: str) -> str:
    """Return the label ``text`` in lower case with single spaces, plain hyphens, and without
    surrounding quotes or brackets, so that equivalent labels are equal."""
    return re.sub(r"\s+", " ", text.translate(_HYPHENS).strip().strip("\"'[]()").strip()).lower()


@lru_cache(maxsize=1 << 14)
def portnum_of_label(text: str) -> PortLabel:
    """Return the adapter, card, chip and port number that the label ``text`` states."""
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
