"""What the headings of a cabling list mean: end of the cable, and what of it, in the languages of people who keep such lists.

A heading is compared without case, accents, blanks and punctuation, and taken apart into known words: ``Switch Port`` is the
port of the switch, ``Puerto destino`` and ``目的端口`` are the port at the far end. A heading with a word that is not known
means nothing. Ends come, in this order, from

* words for an end: A/Z, A/B, start/end, source/destination, from/to, local/remote, 1/2 behind one word;
* what a device is, where it is written instead: Switch and Server, Leaf and Spine; the first is end A;
* the order of the columns: what names no end belongs to the device in front of it (rack and unit: to the device behind them
  where the first of them stands before the first device).

Two ``Server`` columns with numbers beside another device are the two legs of a breakout cable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

__all__ = ["Heading", "Layout", "layout_of", "normal"]

_ENDS = {
    "start a source src from local near von quelle quell lokal anfang ausgang de desde origen origine sorgente origem da depart 源 源端 本端 近端 起点 起始 a端 "
    "接続元 始点 元 출발 시작 источник от откуда": 0,
    "end z b destination dest dst to remote far target peer neighbor neighbour nach ziel entfernt ende gegenstelle vers destino hasta remoto arrivee cible distant "
    "destinazione para 目的 目的端 对端 目标 远端 终点 宿 b端 z端 接続先 終点 先 도착 대상 назначение до куда приемник": 1,
}  # fmt: skip
_FIELDS = {
    "node": "node device host hostname system equipment machine name nodename devicename gerat geraet knoten rechner equipement noeud appareil hote equipo dispositivo nodo "
            "maquina apparato equipamento 设备 设备名 设备名称 节点 主机 主机名 装置 機器 ノード ホスト 장비 노드 устройство узел хост",
    "port": "port ports portname interface portno portnumber anschluss schnittstelle puerto interfaz porta 端口 端口号 接口 口 ポート 포트 порт интерфейс",
    "hca": "hca adapter nic ca card hcadevice karte netzwerkkarte adaptateur carte tarjeta adaptador scheda 网卡 适配器 アダプタ アダプター 어댑터 адаптер",
    "rack": "rack cabinet location devicelocation racklocation rackname schrank standort baie armoire emplacement armario bastidor ubicacion armadio 机柜 机架 柜 位置 ラック 랙 стойка шкаф",
    "u": "u ru unit rackunit uheight height he hoheneinheit hoehe unite unidad u位 高度 юнит",
    "length": "length len lange laenge kabellange kabellaenge longueur longitud largo lunghezza comprimento 长度 线长 長さ ケーブル長 길이 длина",
    "cable": "cable cabletype medium media kabel kabeltyp kabelart cavo 线缆 线缆类型 ケーブル ケーブル種別 케이블 кабель",
    "speed": "speed rate linkspeed bandwidth geschwindigkeit rate vitesse debit velocidad velocita velocidade 速率 速度 带宽 속도 скорость",
    "purpose": "linktype purpose zweck usage uso 用途",
}  # fmt: skip
_ROLES = {
    "switch": "switch switches sw commutateur conmutador 交换机 スイッチ 스위치 коммутатор", "leaf": "leaf edge tor leafswitch",
    "spine": "spine core spineswitch coreswitch", "server": "server svr srv compute computenode client serveur servidor 服务器 サーバ サーバー 서버 сервер",
}  # fmt: skip
_NOISE = ("no nr num number of the side ends label m mtr meter meters metre metres metros in der des die du la le del el d l con di und and "
          "名 名称 号 编号 端 の 番号 名前 이름 번호 имя номер cm ft")  # fmt: skip
_ORDER = ("length", "speed", "u", "rack", "port", "hca", "purpose", "node", "cable")
"""What a heading of several words is: ``cable length`` a length, ``rack unit`` a unit, ``device location`` a rack."""
_SIDELESS = ("length", "speed", "cable", "purpose")
_MOST = 60


@lru_cache(maxsize=1 << 12)
def normal(text: str) -> str:
    """Small letters and digits alone, without accents."""
    split = unicodedata.normalize("NFKD", re.sub(r"^#?\s*fields:", "", text.strip().casefold()))
    return "".join(c for c in split if c.isalnum())


def _table(of: dict[str, str]) -> dict[str, str]:
    return {normal(word): what for what, words in of.items() for word in words.split()}


_SIDE_OF = {normal(word): end for words, end in _ENDS.items() for word in words.split()}
_FIELD_OF, _ROLE_OF = _table(_FIELDS), _table(_ROLES)
_NOISE_WORDS = {normal(word) for word in _NOISE.split()}
_WORDS = {*_SIDE_OF, *_FIELD_OF, *_ROLE_OF, *_NOISE_WORDS}
_LONGEST = max(map(len, _WORDS))
_OPEN_SIDE = {normal(w) for w in ("von", "from", "de", "desde", "da", "depart", "origen", "origine", "source")}
"""Words before which ``a`` is no end A: ``de … a …``."""


@dataclass(frozen=True)
class Heading:
    """What one heading says: ``end`` 0, 1 or None (none stated), ``what`` of :data:`_FIELDS` or "" (an end alone), ``role`` and ``number`` as written."""

    end: int | None
    what: str
    role: str = ""
    number: int = 0
    is_a: bool = False


@dataclass
class Layout:
    """Columns of a cabling list by field and end (``node0``, ``port1``; second leg: ``node2``), and what each heading was taken for."""

    column: dict[str, int]
    headings: list[str]
    taken: list[str] = field(default_factory=list)

    @property
    def legs(self) -> int:
        """Far ends in one row."""
        return 2 if "node2" in self.column else 1


def _words(text: str) -> list[str] | None:
    """``text`` as known words, the fewest; None where something is left."""
    best: list[list[str] | None] = [[], *([None] * len(text))]
    for end in range(1, len(text) + 1):
        for begin in range(max(0, end - _LONGEST), end):
            before = best[begin]
            word = text[begin:end]
            if before is None or not (word in _WORDS or word in ("1", "2")):
                continue
            now = best[end]
            if now is None or len(before) + 1 < len(now):
                best[end] = [*before, word]
    return best[len(text)]


@lru_cache(maxsize=1 << 12)
def _heading(text: str) -> Heading | None:
    plain = normal(text)
    words = _words(plain) if plain and len(plain) <= _MOST else None
    if words is None:
        return None
    fields = {_FIELD_OF[w] for w in words if w in _FIELD_OF}
    role = next((_ROLE_OF[w] for w in words if w in _ROLE_OF), "")
    sides = [w for w in words if w in _SIDE_OF and w not in _NOISE_WORDS]
    number = next((int(w) for w in words if w in ("1", "2")), 0)
    what = next((f for f in _ORDER if f in fields), "node" if role else "")
    if plain == normal("name") or not (what or sides):
        return None
    if "end" in sides and len(sides) > 1:
        sides.remove("end")  # A-End, Z end
    strong = [w for w in sides if len(w) > 1 or not w.isascii()] or sides
    return Heading(_SIDE_OF[strong[0]] if strong else None, what, role, number, bool(strong) and strong[0] == "a")


def layout_of(cells: Sequence[str]) -> Layout | None:
    """The layout that a line of headings states; None where it names no two devices."""
    if len(cells) < 2:
        return None
    read = [_heading(cell) if cell.strip() else None for cell in cells[:256]]
    if any(h and h.end == 0 and not h.is_a for h in read) and not any(h and h.end == 1 for h in read):
        read = [Heading(1, h.what, h.role, h.number) if h and h.is_a else h for h in read]  # de … a …
    found: dict[str, int] = {}
    ends = _devices(read, found)
    if ends is None:
        return None
    _rest(read, ends, found)
    speed = found.get("speed", len(cells))
    if speed + 1 < len(cells) and not cells[speed + 1].strip():
        found.setdefault("cable", speed + 1)  # UFM's lists have the cable in words there
    for end in (0, 1):
        if f"node{end}" not in found:
            return None
    explicit = all(any(h and h.end == e for h in read) for e in (0, 1))
    if not explicit and not any(f"{what}{e}" in found for what in ("port", "hca") for e in (0, 1)):
        return None
    if not explicit and 3 * len(found) < sum(bool(c.strip()) for c in cells):
        return None  # a table of something else in which two headings happen to fit
    if len(found) == 2 and (len(cells) > 6 or None in read):
        return None  # two words in a longer line are a sentence, no headings
    layout = Layout(found, list(cells))
    taken = {at: name for name, at in found.items()}
    layout.taken = [_said(taken.get(i, "")) for i in range(len(cells))]
    return layout


def _devices(read: Sequence[Heading | None], found: dict[str, int]) -> dict[int, int] | None:
    """Enter the columns of devices; column → end (2: the second leg), None where there are no two."""
    nodes = [(i, h) for i, h in enumerate(read) if h and h.what in ("node", "")]
    stated = [(i, h) for i, h in nodes if h.end is not None]
    # "Switch, Port, Server 1, HCA 1, Server 2, HCA 2" beside a device without a number: legs.
    if len({h.end for _, h in stated}) == 2:
        chosen = [(i, h, h.end if not (h.end == 1 and h.number == 2) else 2) for i, h in stated]
        if any(e == 2 for _, _, e in chosen) and not any(h.number == 1 and h.end == 1 for _, h in stated):
            chosen = [(i, h, h.end) for i, h, _ in chosen]
    else:
        words = [(i, h) for i, h in nodes if h.what == "node"]
        alone = [h for _, h in words if not h.number]
        numbered = [h for _, h in words if h.number]
        if alone and len({h.number for h in numbered}) == 2:
            chosen = [(i, h, 0 if not h.number else h.number) for i, h in words]
        elif len(words) >= 2:
            chosen = [(words[0][0], words[0][1], 0), (words[1][0], words[1][1], 1)]
        else:
            return None
    for i, _, end in chosen:
        found.setdefault(f"node{end}", i)
    return {found[f"node{e}"]: e for e in (0, 1, 2) if f"node{e}" in found}


def _rest(read: Sequence[Heading | None], ends: dict[int, int], found: dict[str, int]) -> None:
    """Enter ports, adapters, racks, units, and what belongs to the cable."""
    roles = {read[i].role: e for i, e in ends.items() if read[i] and read[i].role and not read[i].number}  # type: ignore[union-attr]
    devices = sorted(ends)
    mounts = [i for i, h in enumerate(read) if h and h.what in ("rack", "u") and h.end is None and not h.role]
    leading = bool(mounts) and mounts[0] < devices[0]
    several = {h.number for i, h in enumerate(read) if h and i in ends and h.number}
    for i, h in sorted(enumerate(read), key=lambda one: one[1] is None or one[1].end is None):  # a stated end wins
        if h is None or i in ends or h.what in ("", "node"):
            continue
        if h.what in _SIDELESS:
            found.setdefault(h.what, i)
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
        if h.what == "rack" and name in found:
            name = f"shelf{end}"  # a UFM "location" holds the rack, or the unit
        found.setdefault(name, i)


_NAMES = {"node": "device", "port": "port", "hca": "adapter", "rack": "rack", "shelf": "rack", "u": "rack unit"}
_OF = {"0": "first end", "1": "second end", "2": "second end, second leg"}


def _said(name: str) -> str:
    """``port of the second end`` of ``port1``; "" where a column is not used."""
    return f"{_NAMES[name[:-1]]} of the {_OF[name[-1]]}" if name[-1:] in _OF and name[:-1] in _NAMES else name
