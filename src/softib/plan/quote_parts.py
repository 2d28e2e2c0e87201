"""Recognition of a row of a vendor's quote: which part it offers, by order number or by its description.

Order numbers come first. They are compared with the catalogue from their first letter, so that ``SUP-QM9700-3Y`` is not
the switch QM9700. Services and accessories are no parts of a fabric, even if they name the device that they are for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from softib.iba.catalogue import ADAPTERS, CABLES, ETHERNET_SWITCHES, SWITCHES

__all__ = ["Offer", "catalogue_part", "recognise"]

METRES = re.compile(r"(?<![\w.])(\d+(?:[.,]\d+)?)\s?m(?:eters?|etres?)?\b", re.IGNORECASE)
TOKEN = re.compile(r"[A-Z0-9][A-Z0-9./-]{3,}")
SERVICE = re.compile(
    r"\b(SUPPORT|WARRANTY|GARANTIE|MAINTENANCE|WARTUNG|LICEN[CS]ES?|SUBSCRIPTION|TRAINING|INSTALLATION|SHIPPING|FREIGHT|"
    r"VERSAND|SERVICES?|DISCOUNT|RABATT)\b"
)
ACCESSORY = re.compile(
    r"\b(FANS?|PSUS?|POWER (SUPPL(Y|IES)|CORDS?|CABLES?)|(RAIL|RACK|MOUNT(ING)?|RAIL MOUNT)[ -]KITS?|BEZELS?|BLANKS?|"
    r"BLANKING PANELS?|DUST CAPS?|BRACKETS?)\b"
)
OPTIONAL = re.compile(r"\bOPTION(AL)?\b|\bNOT INCLUDED\b|\bALTERNATIVE\b|\bNOT PART OF THIS\b")
TOTAL = re.compile(r"^\W*(SUB-?\s?TOTAL|(GRAND )?TOTAL|SUM|SUMME|VAT|TAX|MWST)\b")
INCLUDED = re.compile(r"\b(WITH|INCL|INCLUDING|INCLUDED|INCLUDES|W/)\b")
GENERATION = re.compile(r"(?<![A-Z])([SDQFEHNXG]DR)(?![A-Z])")
LETTER = {"Q": "QDR", "F": "FDR", "E": "EDR", "H": "HDR", "N": "NDR", "X": "XDR"}
"""The speed in the order number of an adapter, as in MCX75310AAS-NEAT; other letters are those of Ethernet adapters."""
FAMILIES = {
    "MCB": "Connect-IB",
    "MBF1": "BlueField",
    "MBF2": "BlueField-2",
    "MBF3": "BlueField-3",
    "900-9D3": "BlueField-3",
    "900-9X7": "ConnectX-7",
    "900-9X8": "ConnectX-8",
}
"""Start of the order number → adapter."""
RATE = {"400": "NDR", "200": "HDR", "100": "EDR"}
"""Gb/s of a port in the description of an adapter → generation."""
MEDIA = (
    (r"\bDAC\b|\bPASSIVE COPPER\b", "DAC"),
    (r"\bACC\b|\bACTIVE COPPER\b", "ACC"),
    (r"\bAOC\b|\bACTIVE OPTICAL\b", "AOC"),
    (r"\bMMF\b|MULTI-?\s?MODE|\bSR[48]\b|\bOM[345]\b|\b850\s?NM\b", "MMF"),
    (r"\bSMF\b|SINGLE-?\s?MODE|\b[DF]R[48]\b|\bOS2\b|\b1310\s?NM\b", "SMF"),
)
KEYWORDS: tuple[tuple[str, str], ...] = (
    (r"SPLIT|BREAKOUT|Y-CABLE|1:2", "splitter"),
    (r"TWIN|2X\s?400|800\s?G|2X\s?800|1\.6\s?T", "cage"),
    (r"TRANSCEIVER|OPTIC(?!AL CABLE)|SR4|DR4|FR4", "host"),
    (r"FIB(RE|ER)|MPO|PATCH", "fibre"),
    (r"\bAOC\b|\bDAC\b|\bACC\b|COPPER|ACTIVE OPTICAL|CABLE", "cable"),
)
"""Keywords in a row without a known order number → role of the row; the first match applies."""


@dataclass(frozen=True)
class Offer:
    """The part of a row. ``role``: switch, adapter, ethernet, management, or a role of
    :class:`~softib.plan.plugs.Order`; empty if the row is not counted, and ``why`` says so. ``name``: of the switch or
    adapter in the catalogue, empty if only the ``generation`` is known. ``each``: number of these parts in one piece,
    as in a server with eight adapters."""

    role: str
    medium: str = ""
    metres: float | None = None
    name: str = ""
    generation: str = ""
    why: str = ""
    each: int = 1


def recognise(part: str, description: str) -> Offer:
    """Return the part of a row with the order number ``part`` (may be empty) and the description ``description``."""
    number, upper = part.upper().strip(), description.upper()
    offer = catalogue_part(number)
    if not_counted := _not_counted(number, upper, offer is not None):
        return Offer("", why=f"is not counted ({not_counted})")
    unknown = number if offer is None else ""
    if offer is None:
        offer = next((o for token in TOKEN.findall(upper) if (o := catalogue_part(token)) is not None), None)
        unknown = "" if offer is not None else unknown
    offer = offer or _described(upper)
    if offer.metres is None and offer.role in ("cable", "splitter", "fibre", "patch"):
        metres = METRES.search(description)
        offer = replace(offer, metres=float(metres[1].replace(",", ".")) if metres else None)
    return _doubtful(offer, unknown)


def _doubtful(offer: Offer, unknown: str) -> Offer:
    """Return ``offer`` with what it leaves open; without a role if that decides which part it is."""
    missing = ""
    if offer.role in ("switch", "adapter") and not offer.name and (unknown or not offer.generation):
        missing = "model"
    elif offer.role in ("cable", "splitter", "fibre", "cage", "host") and not offer.medium:
        missing = "medium, for example MMF or SMF"
    elif offer.role in ("cable", "splitter", "fibre") and offer.metres is None:
        missing = "length"
    if not offer.role or missing:
        reason = f"; part {unknown} is not in the catalogue" if unknown else ""
        reason += f"; the row names no {missing}" if missing else ""
        return Offer("", why=f"was not understood and is omitted{reason}")
    if unknown:
        return replace(offer, why=f"is counted by its description: part {unknown} is not in the catalogue")
    return offer


def _not_counted(number: str, upper: str, in_catalogue: bool) -> str:
    """Return why a row is no part of the fabric: a service, an accessory, an option or a sum; empty for a part.

    Descriptions of devices also list what is in the box (``switch, 2 power supplies, rail kit``), so an accessory or
    the service of a known part counts only where the description begins with it.
    """
    if OPTIONAL.search(upper):
        return "optional"
    if TOTAL.search(f"{number} {upper}") and not in_catalogue:
        return "total"
    pieces = re.split(r"[,;(|]", upper) or [""]
    head = re.split(r"\bFOR\b", pieces[0])
    for pattern, kind in ((SERVICE, "service"), (ACCESSORY, "accessory")):
        if in_catalogue:
            if len(head) > 1 and pattern.search(head[0]):
                return kind
        elif any(pattern.search(p) and not INCLUDED.search(p) for p in (pieces if kind == "service" else pieces[:1])):
            return kind
    if not in_catalogue and re.match(r"SUP-|SVC-|.*-SUP\b|LIC-", number):
        return "service"
    return ""


def catalogue_part(number: str) -> Offer | None:
    """Return the part with an order number in upper case, or None if the catalogue does not have it."""
    for row in SWITCHES:
        if any(re.match(rf"M?{re.escape(system.upper())}", number) for system in row.systems):
            return Offer("switch", name=row.name, generation=row.generation)
    if re.match(r"M?SN2201", number):
        return Offer("management")
    for ethernet in ETHERNET_SWITCHES:
        system = ethernet.name.split()[0].upper().rstrip(",")
        if re.search(r"\d", system) and re.match(rf"(M|DCS-)?{re.escape(system)}", number):
            return Offer("ethernet", name=f"Ethernet switch, {ethernet.name}")
    if match := re.match(r"M?(SN\d{4})", number):
        return Offer("ethernet", name=f"Ethernet switch, {match[1]}")
    orders = [(order, role, kind) for kind in CABLES for role, order in kind.orders.items()]
    for order, role, kind in sorted(orders, key=lambda o: -len(o[0])):
        if number.startswith(order.upper().rstrip("-")):
            return Offer(role, kind.medium, _length_of(number, order.upper()), generation=kind.generation)
    return _adapter(number)


def _adapter(number: str) -> Offer | None:
    if match := re.match(r"MCX([3-9])[A-Z0-9]*(?:-([A-Z]))?", number):
        name, letter = f"ConnectX-{match[1]}", match[2]
        if letter and letter not in LETTER:
            return Offer("adapter", name=f"{name} for Ethernet")
        rows = {row.name: row.generation for row in ADAPTERS}
        return Offer("adapter", name=name, generation=LETTER[letter] if letter else rows.get(name, ""))
    name = next((name for prefix, name in FAMILIES.items() if number.startswith(prefix)), "")
    return Offer("adapter", name=name) if name else None


def _length_of(number: str, order: str) -> float | None:
    """Return the length in metres that ends an order number, as in N010 or N01A."""
    match = re.match(re.escape(order) + r"(\d\d)(\d|A)", number)
    if match is None:
        return None
    return float(match[1]) + 0.5 if match[2] == "A" else float(match[1] + match[2])


def _named(upper: str, names: list[str]) -> str:
    """Return the longest of ``names`` in ``upper``."""
    matches = [n for n in names if re.search(rf"(?<![\w-]){re.escape(n.upper())}(?![\w-])", upper)]
    return max(matches, key=len, default="")


def _described(upper: str) -> Offer:
    """Return the part that a description without an order number names; no role if it names none."""
    speed = GENERATION.search(upper)
    generation = speed[1] if speed else ""
    cabling = re.search(r"CABLE|TRANSCEIVER|FIB(RE|ER)|\bAOC\b|\bDAC\b|\bACC\b|\bMPO\b", upper)
    ethernet = re.search(r"ETHERNET|\bROCE\b|\dGBE\b", upper) and not re.search(r"INFINIBAND|\bVPI\b", upper)
    name = _named(upper, [row.name for row in ADAPTERS])
    if not cabling and (name or re.search(r"\bHCA\b|\bADAPTER (CARD|PORT)|\bADAPTER\b", upper)):
        rate = re.search(r"(?<!\d)(400|200|100)\s?G", upper)
        generation = generation or (RATE[rate[1]] if rate else "")
        each = re.search(rf"(\d+)\s?X\s+(?:NVIDIA )?{re.escape(name.upper())}", upper) if name else None
        if ethernet:
            name = f"{name or 'adapter'} for Ethernet"
        return Offer("adapter", name=name, generation=generation, each=int(each[1]) if each else 1)
    if re.search(
        r"1000BASE-T|\bRJ-?45\b|\bCAT(EGORY)?[ .]?[5-8]|\bMANAGEMENT (SWITCH|CABLE|NETWORK)|\b1\s?GB?E\b", upper
    ):
        return Offer("management" if "SWITCH" in upper else "patch")
    if re.search(r"\bSWITCH\b", upper) and not cabling and not re.search(r"SWITCH-TO|TO SWITCH", upper):
        if ethernet:
            return Offer("ethernet", name="Ethernet switch")
        return Offer("switch", name=_named(upper, [row.name for row in SWITCHES]), generation=generation)
    role = next((role for pattern, role in KEYWORDS if re.search(pattern, upper)), "")
    medium = next((medium for pattern, medium in MEDIA if re.search(pattern, upper)), "")
    return Offer(role, medium, generation=generation)
