"""Detect the encoding of a CSV file that a spreadsheet program saved.

A CSV file does not name its encoding, and most bytes are letters in every candidate encoding. If
the headings are in the same language as the names, they determine the encoding. Otherwise softib
checks the words: people do not write an accented capital after a small letter, three accents in a
row, or half a Cyrillic word in capitals, and rarely use a character of level 2 of a Chinese or
Japanese standard.
"""

from __future__ import annotations

import re
from itertools import pairwise

from softib.errors import UnreadableFile
from softib.fabric.formats.cabling.sheet import sheets_of_text
from softib.input_files import nul_in

__all__ = ["decode", "text_of"]

WESTERN = ("cp1252", "cp1250", "mac_roman", "cp1251", "koi8-r", "cp866")
"""Excel's encodings in western and central Europe and in Russia, the encoding of older Macs, and
older Russian encodings."""
ASIAN = {"gb18030": ("gb2312", 0xB0, 0xD7), "cp932": ("cp932", 0x81, 0x97), "cp949": ("euc_kr", 0xB0, 0xC8)}
"""Excel's encodings in China, Japan and Korea → the national standard that each contains, and the
first and last lead byte of that standard's common characters (GB 2312 and JIS X 0208 level 1, KS X
1001 Hangul)."""
HEAD_CHARACTERS = 1 << 14
COMMON = 0.75

_WORD = re.compile(r"[^\s,;|\t\"'()\[\]{}/:.<>=+*&#!?-]+")
_ACCENTED = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
_SIGNS = "°ºªµ²³™®©…–—‘’“”„«»×±½¼¾€£§№"
_LATIN = re.compile(
    rf"^(?!.*[{_ACCENTED}]{{3}})(?:[A-Za-z0-9_@%${_ACCENTED}]+|[A-Za-z0-9_@%$]*[{_SIGNS}]+[A-Za-z0-9_@%$]*)$"
)
_CYRILLIC = re.compile(rf"^[A-Za-z0-9_@%${_SIGNS}]*(?:[А-ЯЁ]?[а-яё]+|[А-ЯЁ]+)[A-Za-z0-9_@%${_SIGNS}]*$")


def decode(data: bytes) -> str:
    """Decode a CSV file. It is UTF-16 or UTF-8 if it has a byte-order mark, and UTF-8 if it is
    valid UTF-8. Otherwise the encoding is the one in which the headings are known and the words
    plausible. If no encoding or several meet this test, characters beyond ASCII become U+FFFD."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    text = data.decode("utf-8-sig", "replace")
    if "\ufffd" not in text:
        return text
    tried = {encoding: data.decode(encoding, "replace") for encoding in (*WESTERN, *ASIAN)}
    with_headings = {name: t for name, t in tried.items() if _has_headings(t)}
    western = [t for name, t in with_headings.items() if name in WESTERN and _is_plausible(t)]
    asian = [t for name, t in with_headings.items() if name in ASIAN and "\ufffd" not in t and _is_common(name, t)]
    if western:
        return western[0]
    if len(asian) == 1:
        return asian[0]
    return text if len(asian) > 1 or not with_headings or _has_headings(text) else next(iter(with_headings.values()))


def text_of(data: bytes, name: str) -> str:
    """Return the text of the list ``name``. Raises :class:`UnreadableFile` for binary data
    (:func:`~softib.input_files.nul_in`)."""
    text = decode(data)
    if nul_in(text.encode()) >= 0:
        raise UnreadableFile(f"{name}: binary data (a NUL byte); give a cabling list as text or as a workbook (.xlsx)")
    return text


def _has_headings(text: str) -> bool:
    return sheets_of_text(text[:HEAD_CHARACTERS]).layout is not None


def _is_plausible(text: str) -> bool:
    """Return whether all words with characters beyond ASCII are plausible: a few accented Latin
    letters among plain ones, or only Cyrillic letters."""
    foreign = {w for w in _WORD.findall(text) if not w.isascii()}
    return "\ufffd" not in text and all(
        (_LATIN.match(w) and not _has_capital_within(w)) or _CYRILLIC.match(w) for w in foreign
    )


def _has_capital_within(word: str) -> bool:
    return any(a.islower() and b.isupper() and not b.isascii() for a, b in pairwise(word))


def _is_common(encoding: str, text: str) -> bool:
    """Return whether most characters beyond ASCII are common in the language of the encoding."""
    standard, low, high = ASIAN[encoding]
    letters = {c for c in text if ord(c) >= 0x3040 and not 0xFF00 <= ord(c) < 0xFF61}
    common = sum(low <= _lead(c, standard) <= high for c in letters)
    return bool(letters) and common >= COMMON * len(letters)


def _lead(character: str, standard: str) -> int:
    try:
        return character.encode(standard)[0]
    except UnicodeEncodeError:
        return 0
