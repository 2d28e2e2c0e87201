"""Lengths of cables as people write them: ``3 m``, ``3米``, ``10'``, ``3,0 mètres``, ``ca. 5 m
(OM4)``; and the unit that a heading states, ``Length (ft)``."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

__all__ = ["length_m", "unit_of"]

MAX_LENGTH_M = 10_000.0
"""InfiniBand's longest optics reach 10 km; a longer cable is a mistyped one."""
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
"""Units that are other words in headings (``Länge in m``)."""
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
"""Cells that say that the length is not known."""
_LENGTH = re.compile(
    r"^(?:ca\.?|circa|approx\.?|about|etwa|env\.?|约|約|~|≈)?\s*(\d{1,9}(?:[.,]\d{1,9})?)\s*([^\W\d_]+|['′’\"″”]+)?\.?\s*(\(.*\)|(?:aoc|dac|acc|om[345]|os[12])\b.*)?$"
)


def _plain(text: str) -> str:
    """Small letters without accents, and digits of any width as 0-9."""
    text = unicodedata.normalize("NFKC", text.strip()).casefold()
    return "".join(c for c in unicodedata.normalize("NFD", text) if not "\u0300" <= c <= "\u036f")


_FACTOR = {_plain(word): factor for factor, names in _METRES.items() for word in names.split()}


def length_m(text: str, unit: float) -> float | None:
    """Metres of a cell, NaN where it says that no one knows, None where it is no length. A bare
    number is in ``unit`` metres."""
    plain = _plain(text)
    if plain in _UNKNOWN:
        return math.nan
    match = _LENGTH.match(plain)
    factor = None if match is None else _FACTOR.get(match[2]) if match[2] else unit
    value = 0.0 if match is None or factor is None else float(match[1].replace(",", ".")) * factor
    return value if 0 < value <= MAX_LENGTH_M else None


def unit_of(parts: Iterable[str]) -> float:
    """Metres of the unit among the ``parts`` of a heading; 1 where it states none."""
    return next((_FACTOR[w] for w in map(_plain, parts) if w in _FACTOR and w not in _BY_HEADING), 1.0)
