"""The meaning of a cabling list's headings in several languages: the end of the cable, and the
field.

Headings are compared without case, accents, blanks and punctuation, and split into known words:
``Switch Port`` is the port of the switch, ``Puerto destino`` and ``目的端口`` are the peer's port. A
heading with an unknown word is ignored. The end is taken from the first of these that a heading
has:

* words for an end: A/Z, A/B, start/end, source/destination, from/to, local/remote, 1/2 after a
  word;
* the kind of device: Switch and Server, Leaf and Spine; the kind that occurs first is end A;
* the order of the columns: a heading without an end belongs to the device on its left. If the first
  rack or unit column is to the left of the first device, racks and units belong to the device on
  their right.

Two numbered ``Server`` columns beside another device are the two legs of a breakout cable.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from softib.plain_yaml import load_plain_yaml

__all__ = ["Heading", "Layout", "layout_of", "length_m", "normal", "unit_of"]


MAX_LENGTH_M = 10_000.0
"""Longest length that is accepted. InfiniBand's longest optics reach 10 km, so a longer one is a
typing error."""
_METRES = {
    1.0: (
        "m mt mts mtr mtrs meter meters metre metres metro metros metri metr м метр метра метров 米 公尺 メートル 미터"
    ),
    0.01: (
        "cm centimeter centimeters centimetre centimetres zentimeter centimetro "
        "centimetros centimetri см 厘米 公分 センチ センチメートル 센티미터"
    ),
    0.001: "mm millimeter millimeters millimetre millimetres milimetros millimetri мм 毫米 ミリ 밀리미터",
    1000.0: "km kilometer kilometers kilometre kilometres км 公里 千米",
    0.3048: "ft foot feet fuß fuss pied pieds pie pies piedi pé pés фут фута футов 英尺 フィート 피트 ' ′ ’",
    0.0254: "in inch inches zoll pouce pouces pulgada pulgadas pollici дюйм дюйма дюймов 英寸 インチ 인치 \" ″ ” ''",
}
_BY_HEADING = ("in",)
"""Units that are ordinary words, and count as units only in headings like ``Länge in m``."""
_UNKNOWN = (
    "",
    "n/a",
    "na",
    "n.a.",
    "-",
    "–",
    "--",
    "tbd",
    "?",
    "unknown",
    "unbekannt",
    "inconnu",
    "desconocido",
    "未知",
)
"""Cell contents that mean "length unknown"."""
_LENGTH = re.compile(
    r"^(?:ca\.?|circa|approx\.?|about|etwa|env\.?|约|約|~|≈)?\s*(\d{1,9}(?:[.,]\d{1,9})?)\s*([^\W\d_]+|['′’\"″”]+)?\.?\s*(\(.*\)|(?:aoc|dac|acc|om[345]|os[12])\b.*)?$"
)


def _plain(text: str) -> str:
    """Return the text in lower case, without accents, and with full-width digits as 0-9."""
    text = unicodedata.normalize("NFKC", text.strip()).casefold()
    return "".join(c for c in unicodedata.normalize("NFD", text) if not "\u0300" <= c <= "\u036f")


_FACTOR = {_plain(word): factor for factor, names in _METRES.items() for word in names.split()}


def length_m(text: str, unit: float) -> float | None:
    """Return the length in metres from a cell: NaN if the cell says "unknown", None if it does not
    contain a length. A number without a unit is in units of ``unit`` metres."""
    plain = _plain(text)
    if plain in _UNKNOWN:
        return math.nan
    match = _LENGTH.match(plain)
    factor = None if match is None else _FACTOR.get(match[2]) if match[2] else unit
    value = 0.0 if match is None or factor is None else float(match[1].replace(",", ".")) * factor
    return value if 0 < value <= MAX_LENGTH_M else None


def unit_of(parts: Iterable[str]) -> float:
    """Return the unit among the ``parts`` of a heading, in metres; 1 if the heading has no unit."""
    return next((_FACTOR[w] for w in map(_plain, parts) if w in _FACTOR and w not in _BY_HEADING), 1.0)


_ORDER = ("status", "length", "speed", "u", "rack", "port", "hca", "purpose", "node", "cable")
"""Fields by precedence: a heading with words of several fields has the meaning of the first.
``cable length`` is a length, ``rack unit`` a unit, ``device location`` a rack."""
_SIDELESS = ("status", "length", "speed", "cable", "purpose")
_MOST = 60


@lru_cache(maxsize=1 << 12)
def normal(text: str) -> str:
    """Return the text as lower-case letters and digits only, without accents."""
    split = unicodedata.normalize("NFKD", re.sub(r"^#?\s*fields:", "", text.strip().casefold()))
    return "".join(c for c in split if c.isalnum())


def _table(of: dict[str, str]) -> dict[str, str]:
    return {normal(word): field for field, parts in of.items() for word in parts.split()}


_VOCABULARY = load_plain_yaml(
    Path(__file__).with_name("headings.yaml").read_text("utf-8"), "headings.yaml", "vocabulary"
)
_SIDE_OF = {word: ("first", "second").index(end) for word, end in _table(_VOCABULARY["ends"]).items()}
_FIELD_OF, _ROLE_OF = _table(_VOCABULARY["fields"]), _table(_VOCABULARY["roles"])
_NOISE = {normal(word) for word in _VOCABULARY["noise"].split()}
_VOCABULARY_ALL = {*_SIDE_OF, *_FIELD_OF, *_ROLE_OF, *_NOISE}
_LONGEST = max(map(len, _VOCABULARY_ALL))


@dataclass(frozen=True)
class Heading:
    """Meaning of one heading. ``end`` is 0, 1, or None if the heading does not state it. ``what``
    is a field of ``headings.yaml``, or "" if the heading only names an end. ``role`` and ``number``
    are the device kind and the number in the heading."""

    end: int | None
    what: str
    role: str = ""
    number: int = 0
    is_a: bool = False


@dataclass
class Layout:
    """Columns of a cabling list, keyed by field and end (``node0``, ``port1``; ``node2`` is the
    second leg of a breakout cable), and the meaning of each heading."""

    column: dict[str, int]
    headings: list[str]
    taken: list[str] = field(default_factory=list)
    unit_m: float = 1.0
    """Unit in metres of lengths without a unit."""

    @property
    def peers(self) -> int:
        """Number of peers that one row names (2 for breakout cables)."""
        return 2 if "node2" in self.column else 1


def _taken_apart(text: str) -> list[str] | None:
    """Split ``text`` into the fewest known words. Return None if a part of it is unknown."""
    best: list[list[str] | None] = [[], *([None] * len(text))]
    for end in range(1, len(text) + 1):
        for begin in range(max(0, end - _LONGEST), end):
            before = best[begin]
            word = text[begin:end]
            if before is None or not (word in _VOCABULARY_ALL or word in ("1", "2")):
                continue
            now = best[end]
            if now is None or len(before) + 1 < len(now):
                best[end] = [*before, word]
    return best[len(text)]


@lru_cache(maxsize=1 << 12)
def _heading(text: str) -> Heading | None:
    plain = normal(text)
    parts = _taken_apart(plain) if plain and len(plain) <= _MOST else None
    if parts is None:
        return None
    fields = {_FIELD_OF[w] for w in parts if w in _FIELD_OF}
    role = next((_ROLE_OF[w] for w in parts if w in _ROLE_OF), "")
    sides = [w for w in parts if w in _SIDE_OF and w not in _NOISE]
    number = next((int(w) for w in parts if w in ("1", "2")), 0)
    field = next((f for f in _ORDER if f in fields), "node" if role else "")
    if plain == normal("name") or not (field or sides):
        return None
    if "end" in sides and len(sides) > 1:
        sides.remove("end")  # so that A-End and Z end count as A and Z
    strong = [w for w in sides if len(w) > 1 or not w.isascii()] or sides
    return Heading(_SIDE_OF[strong[0]] if strong else None, field, role, number, bool(strong) and strong[0] == "a")


def layout_of(cells: Sequence[str]) -> Layout | None:
    """Return the layout of a line of headings; None if it does not name two devices."""
    if len(cells) < 2:
        return None
    read = [_heading(cell) if cell.strip() else None for cell in cells[:256]]
    if any(h and h.end == 0 and not h.is_a for h in read) and not any(h and h.end == 1 for h in read):
        read = [Heading(1, h.what, h.role, h.number) if h and h.is_a else h for h in read]  # de … a …
    column: dict[str, int] = {}
    ends = _devices(read, column)
    if ends is None:
        return None
    _rest(read, ends, column)
    speed = column.get("speed", len(cells))
    if speed + 1 < len(cells) and not cells[speed + 1].strip():
        column.setdefault("cable", speed + 1)  # UFM's lists describe the cable in the column after the speed
    for end in (0, 1):
        if f"node{end}" not in column:
            return None
    explicit = all(any(h and h.end == e for h in read) for e in (0, 1))
    if not explicit and not any(f"{field}{e}" in column for field in ("port", "hca") for e in (0, 1)):
        return None
    if not explicit and 3 * len(column) < sum(bool(c.strip()) for c in cells):
        return None  # a table about something else, in which two headings happen to be known
    if len(column) == 2 and (len(cells) > 6 or None in read):
        return None  # two known words in a longer line are a sentence, not headings
    layout = Layout(column, list(cells))
    taken = {at: name for name, at in column.items()}
    layout.taken = [_meaning(taken.get(i, "")) for i in range(len(cells))]
    if "length" in column:
        layout.unit_m = unit_of(_taken_apart(normal(cells[column["length"]])) or ())
    return layout


def _devices(read: Sequence[Heading | None], column: dict[str, int]) -> dict[int, int] | None:
    """Enter the device columns into ``column``. Return the end of each column (2: the second leg),
    or None if there are fewer than two devices."""
    nodes = [(i, h) for i, h in enumerate(read) if h and h.what in ("node", "")]
    stated = [(i, h) for i, h in nodes if h.end is not None]
    # In "Switch, Port, Server 1, HCA 1, Server 2, HCA 2", the numbered devices are legs.
    if len({h.end for _, h in stated}) == 2:
        chosen = [(i, h, h.end if not (h.end == 1 and h.number == 2) else 2) for i, h in stated]
        if any(e == 2 for _, _, e in chosen) and not any(h.number == 1 and h.end == 1 for _, h in stated):
            chosen = [(i, h, h.end) for i, h, _ in chosen]
    elif stated and (free := [(i, h) for i, h in nodes if h.end is None and h.what == "node"]):
        remote = stated[0][1].end or 0  # headings like Switch, Port, Remote, Remote Port
        chosen = [(*stated[0], remote), (*free[0], 1 - remote)]
    else:
        parts = [(i, h) for i, h in nodes if h.what == "node"]
        alone = [h for _, h in parts if not h.number]
        numbered = [h for _, h in parts if h.number]
        if alone and len({h.number for h in numbered}) == 2:
            chosen = [(i, h, 0 if not h.number else h.number) for i, h in parts]
        elif len(parts) >= 2:
            chosen = [(parts[0][0], parts[0][1], 0), (parts[1][0], parts[1][1], 1)]
        else:
            return None
    for i, _, end in chosen:
        column.setdefault(f"node{end}", i)
    return {column[f"node{e}"]: e for e in (0, 1, 2) if f"node{e}" in column}


def _rest(read: Sequence[Heading | None], ends: dict[int, int], column: dict[str, int]) -> None:
    """Assign the columns of ports, adapters, racks, units and cables."""
    roles = {read[i].role: e for i, e in ends.items() if read[i] and read[i].role and not read[i].number}  # type: ignore[union-attr]
    devices = sorted(ends)
    mounts = [i for i, h in enumerate(read) if h and h.what in ("rack", "u") and h.end is None and not h.role]
    leading = bool(mounts) and mounts[0] < devices[0]
    several = {h.number for i, h in enumerate(read) if h and i in ends and h.number}
    # headings that state an end come first
    for i, h in sorted(enumerate(read), key=lambda one: one[1] is None or one[1].end is None):
        if h is None or i in ends or h.what in ("", "node"):
            continue
        if h.what in _SIDELESS:
            column.setdefault(h.what, i)
            continue
        if h.end is not None:
            end = 2 if h.end == 1 and h.number == 2 and 2 in ends.values() else h.end
        elif h.role in roles:
            end = roles[h.role]
        elif h.number and len(several) == 2:
            end = next((ends[d] for d in devices if read[d] and read[d].number == h.number), 0)  # type: ignore[union-attr]
        else:
            before, behind = [d for d in devices if d < i], [d for d in devices if d > i]
            nearest = behind[0] if behind and (not before or (h.what in ("rack", "u") and leading)) else before[-1]
            end = ends[nearest]
        name = f"{h.what}{end}"
        if h.what == "rack" and name in column:
            name = f"shelf{end}"  # a UFM "location" holds either the rack or the unit
        column.setdefault(name, i)


_NAMES = {"node": "device", "port": "port", "hca": "adapter", "rack": "rack", "shelf": "rack", "u": "rack unit"}
_OF = {"0": "first end", "1": "second end", "2": "second end, second leg"}


def _meaning(name: str) -> str:
    """Return the description of a column: ``port of the second end`` for ``port1``, or "" if the
    column is not used."""
    return f"{_NAMES[name[:-1]]} of the {_OF[name[-1]]}" if name[-1:] in _OF and name[:-1] in _NAMES else name
