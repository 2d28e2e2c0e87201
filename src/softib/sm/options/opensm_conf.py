"""How OpenSM 3.3.23 reads its options file (opensm(8), ``-F``): it rejects no file, and skips lines
that it cannot use.

Unknown names are ignored. If a value cannot be read, the option is unchanged. A value outside an
option's range is replaced, or loses the bits for which the component of a MAD has no space. Only
``TRUE`` is true.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.iba.cc import SwitchCongestionSetting
from softib.iba.smp import PortInfo, SwitchInfo
from softib.iba.structure import Field
from softib.sm.options.opensm_defaults import DEFAULTS, KINDS, Value, number
from softib.sm.options.opensm_line import strtoul

__all__ = ["Remark", "Stated", "as_opensm_reads", "shown"]

NULL = "(null)"
ALIASES = {"dimn_ports_file": "port_search_ordering_file"}
MOST = {"u8": 0xFF, "u16": 0xFFFF, "u32": 0xFFFFFFFF, "u64": (1 << 64) - 1}
ENFORCE = ("both", "in", "out", "off")
CONSOLES = ("off", "local", "loopback", "socket")
INT_MAX = 0x7FFFFFFF
VLS, ARBITRATION = 16, 64
"""Number of VLs in an SL2VL table, and of entries in an arbitration table (IBA 14.2.5.8, 14.2.5.9)."""
SL2VL = f"a table of {VLS} VLs from 0 to 15"
VLARB = f"a table of at most {ARBITRATION} VL:weight with VLs 0 to 14 and weights 0 to 255"
CCT = "cc_cct"
DELAY = "cc_sw_cong_setting_credit_starvation_return_delay"
CCT_ENTRIES = 128
"""Entries of a CongestionControlTable that OpenSM reads (OSM_CCT_ENTRY_MAX)."""
SHIFTS = f"is not shift:multiplier with a shift from 0 to 3 and a multiplier from 0 to {0x3FFF}"
BY_SL = {
    "cc_ca_cong_setting_ccti_timer": "u16",
    "cc_ca_cong_setting_ccti_increase": "u8",
    "cc_ca_cong_setting_trigger_threshold": "u8",
    "cc_ca_cong_setting_ccti_min": "u8",
}
"""Options that have one value per SL → the kind of value."""
PROGRAMMED: dict[str, Field] = {
    "sm_sl": PortInfo.master_sm_sl,
    "subnet_timeout": PortInfo.subnet_timeout,
    "head_of_queue_lifetime": PortInfo.hoq_life,
    "leaf_head_of_queue_lifetime": PortInfo.hoq_life,
    "vl_stall_count": PortInfo.vl_stall_count,
    "leaf_vl_stall_count": PortInfo.vl_stall_count,
    "local_phy_errors_threshold": PortInfo.local_phy_errors,
    "overrun_errors_threshold": PortInfo.overrun_errors,
    "packet_life_time": SwitchInfo.life_time_value,
    "cc_sw_cong_setting_threshold": SwitchCongestionSetting.threshold,
    "cc_sw_cong_setting_credit_starvation_threshold": SwitchCongestionSetting.cs_threshold,
}
"""Option → the component to which OpenSM writes its value. OpenSM does not check the range and
writes the low bits (``ib_types.h``: ib_port_info_set_…)."""


@dataclass(frozen=True)
class Remark:
    """``kind`` is ``unknown`` (no such option), ``unreadable`` (the old value stays), ``replaced``
    (by ``now``, and OpenSM reports this), ``silent`` (replaced without a report), or ``programmed``
    (OpenSM writes ``now`` to ports)."""

    line: int
    name: str
    value: str
    kind: str
    now: Value = None
    why: str = "is out of range"

    def __str__(self) -> str:
        if self.kind == "unknown":
            return f"{self.name[:40]}: OpenSM 3.3.23 has no such option"
        why, most = self.why, MOST.get(KINDS.get(self.name, ""), 0)
        if self.kind == "unreadable":
            fits = not most or (number(self.value) or 0) <= most
            why = "is not a valid value" if fits else _too_large(most)
        return f"{self.name} {self.value[:40]!r} {why}; OpenSM uses {shown(self.now)}"


@dataclass
class Stated:
    """The content of an options file by option name. ``values`` are the values that OpenSM uses;
    ``lines`` the lines that set them (if there are several, the last). ``unknown`` are names that
    OpenSM does not have, with line and text. ``remarks`` are lines that OpenSM does not use as
    written."""

    values: dict[str, Value] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, tuple[int, str]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)

    def get(self, name: str) -> Value:
        """Return the value that OpenSM uses: the one in the file, or the default."""
        return self.values.get(name, DEFAULTS[name])

    @property
    def changed(self) -> dict[str, Value]:
        """Return the options that differ from the default."""
        return {name: value for name, value in self.values.items() if value != DEFAULTS[name]}


def _too_large(most: int) -> str:
    return f"does not fit into {most.bit_length()} bits (0 to {most})"


def shown(value: Value) -> str:
    """Return the value as OpenSM writes it."""
    return NULL if value is None else str(value).upper() if isinstance(value, bool) else str(value)


def as_opensm_reads(text: str) -> Stated:
    """Read the options file ``text``."""
    stated = Stated()
    for line, row in enumerate(text.split("\n"), 1):
        fields = row.split("#")[0].replace("\t", " ").lstrip(" ").split(" ", 1)
        if not fields[0]:
            continue
        name, value = ALIASES.get(fields[0], fields[0]), _clean(fields[1] if len(fields) > 1 else "")
        if name not in KINDS:
            stated.unknown[name] = line, value
            stated.remarks.append(Remark(line, name, value, "unknown"))
            continue
        new, readable = _read(KINDS[name], value)
        if readable and new is not None:
            readable = _congestion_readable(name, value)
        if readable:
            stated.values[name], stated.lines[name] = new, line
        if not readable or not _as_written(KINDS[name], value, new):
            stated.remarks.append(Remark(line, name, value, "unreadable", stated.get(name)))
    _verify(stated)
    return stated


def _clean(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _read(kind: str, text: str) -> tuple[Value, bool]:
    if kind == "truth":
        return text == "TRUE", True
    if kind in MOST:
        value = number(text)
        if value is not None and value < 0:
            value += 1 << 64  # C's unsigned long wraps
        return value, value is not None and 0 <= value <= MOST[kind]
    if kind == "i32":
        return _leading_int(text), True
    if kind == "mask":
        digits16 = text[2:] if text[:2] in ("0x", "0X") else text
        good = bool(digits16) and all(c in "0123456789abcdefABCDEF" for c in digits16)
        return (f"0x{digits16[:64].lower():0>64}" if good else None), good
    if kind == "other" and ":" not in text and " " not in text and text != NULL:
        return None, False
    return (None if text == NULL else text), True


def _congestion_readable(name: str, text: str) -> bool:
    """Return whether OpenSM can read ``text`` as a congestion control table, or as the value for an
    SL (``osm_subnet.c``: opts_parse_cc_cct, parse_ca_cong_common)."""
    if name == CCT:
        return all(":" in entry for entry in _entries(text))
    if name not in BY_SL:
        return True
    sl, _, value = text.partition(" ")
    return strtoul(sl)[0] & 0xFF < VLS and _read(BY_SL[name], value.strip())[1]


def _entries(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry][:CCT_ENTRIES]


def _as_written(kind: str, text: str, value: Value) -> bool:
    """Return whether OpenSM uses ``text`` as written; False if it silently uses a different value from ``text``."""
    return text in ("TRUE", "FALSE") if kind == "truth" else kind != "i32" or number(text) == value


def _leading_int(text: str) -> int:
    """Return ``text`` as strtol parses it into an int: text after the digits is ignored, and the
    value is 0 without digits."""
    parsed = next((n for end in range(len(text), 0, -1) if (n := number(text[:end])) is not None), 0)
    value = min(max(parsed, -(1 << 63)), (1 << 63) - 1) & 0xFFFFFFFF
    return value - (1 << 32) if value > INT_MAX else value


def _verify(stated: Stated) -> None:
    """Replace the values that OpenSM replaces after it has read the whole file."""
    get = stated.get

    def out_of(name: str, wrong: bool, now: Value) -> None:
        if wrong:
            written = shown(stated.values.get(name))
            stated.remarks.append(Remark(stated.lines.get(name, 0), name, written, "replaced", now))
            stated.values[name] = now

    def above(name: str, most: int, now: Value) -> None:
        out_of(name, _int(get(name)) > most, now)

    def silently(name: str, now: Value, why: str = Remark.why) -> None:
        if name in stated.lines and get(name) != now:
            stated.remarks.append(Remark(stated.lines[name], name, shown(get(name)), "silent", now, why))
        stated.values[name] = now

    above("lmc", 7, 0)
    above("sm_priority", 15, 0)
    for name, most, supported in (
        ("force_link_speed", 7, 15),
        ("force_link_speed_ext", 7, 31),
        ("force_link_width", 31, 255),
    ):
        value = _int(get(name))
        disabled = name == "force_link_speed_ext" and value == 30
        out_of(name, most < value != supported and not disabled, supported)
    above("fdr10", 2, 1)
    if get("max_wire_smps") == 0:
        stated.values["max_wire_smps"] = INT_MAX
    above("max_wire_smps", INT_MAX, 4)
    above("max_wire_smps2", INT_MAX, get("max_wire_smps"))
    out_of(
        "long_transaction_timeout",
        _int(get("long_transaction_timeout")) < _int(get("transaction_timeout")),
        get("transaction_timeout"),
    )
    out_of("console", get("console") not in CONSOLES, "off")
    if get("no_partition_enforcement"):
        silently("part_enforce", "off", "has no effect with no_partition_enforcement TRUE")
    out_of("part_enforce", get("part_enforce") not in ENFORCE, "both")
    if get("qos"):
        for prefix in ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr"):
            above(f"{prefix}_max_vls", 15, 0)
            above(f"{prefix}_high_limit", 255, -1)
            if _int(get(f"{prefix}_high_limit")) < 0:
                silently(f"{prefix}_high_limit", -1)
            for table in ("vlarb_high", "vlarb_low", "sl2vl"):
                _verify_table(stated, f"{prefix}_{table}")
    out_of("perfmgr_sweep_time_s", _int(get("perfmgr_sweep_time_s")) < 1, 180)
    out_of("perfmgr_max_outstanding_queries", _int(get("perfmgr_max_outstanding_queries")) < 1, 500)
    above("m_key_protection_level", 3, 2)
    lease, interval = _int(get("m_key_lease_period")), _int(get("sweep_interval"))
    if get("m_key_protection_level") and lease:
        out_of("sweep_interval", not interval, lease - 1)
        interval = _int(get("sweep_interval"))
        out_of("m_key_lease_period", interval >= lease, interval + 1 & 0xFFFF)
    if get("congestion_control"):
        _verify_shifts(stated)
    for name, component in PROGRAMMED.items():
        value = _int(get(name))
        if value > component.mask and (get("congestion_control") or not name.startswith("cc_")):
            why, now = _too_large(component.mask), value & component.mask
            stated.remarks.append(Remark(stated.lines[name], name, shown(value), "programmed", now, why))


def _verify_table(stated: Stated, name: str) -> None:
    """Compare a table with the one that OpenSM programs. OpenSM reads one number after another, and
    skips one character after each. It takes VLs in arbitration tables modulo 15, cuts weights to 8
    bits, and VLs of SLs to 4 bits (``osm_qos.c``: parse_vlarb_entry, parse_sl2vl_entry)."""
    text = stated.values.get(name)
    if not isinstance(text, str):
        return
    entries = text.count(",") + 1
    if name.endswith("sl2vl"):
        written = _numbers(text, VLS)
        programmed = [vl & 0xF for vl in written]
        fits = entries == VLS
        now = ",".join(map(str, programmed))
    else:
        written = _numbers(text, 2 * min(entries, ARBITRATION))
        programmed = [n & 0xFF if k % 2 else n % 15 for k, n in enumerate(written)]
        fits = entries <= ARBITRATION and text.count(":") == entries
        now = ",".join(f"{vl}:{weight}" for vl, weight in zip(programmed[::2], programmed[1::2], strict=True))
    if not fits or written != programmed:
        why = f"is not {SL2VL if name.endswith('sl2vl') else VLARB}"
        stated.remarks.append(Remark(stated.lines.get(name, 0), name, text, "programmed", now, why))


def _verify_shifts(stated: Stated) -> None:
    """Compare shifts and multipliers with those that OpenSM programs. It reads them as 8 and 16
    bits, and writes ``shift << 14 | multiplier`` into 16 bits (``osm_congestion_control.c``)."""
    for name, most in ((CCT, CCT_ENTRIES), (DELAY, 1)):
        text = stated.values.get(name)
        if not isinstance(text, str):
            continue
        programmed, exact = [], text.count(",") < most
        for entry in _entries(text)[:most]:
            fields = entry.split(":", 1)
            (shift, rest), (multiplier, tail) = (strtoul(field) for field in (fields[0], fields[-1]))
            both = ((shift & 0xFF) << 14 | multiplier & 0xFFFF) & 0xFFFF
            programmed.append(f"{both >> 14}:{both & 0x3FFF}")
            exact = exact and (shift, multiplier) == (both >> 14, both & 0x3FFF) and not (rest + tail).strip()
        if not exact:
            why = SHIFTS if most == 1 else f"is not a table of at most {most} entries, or one {SHIFTS}"
            now = ",".join(programmed)
            stated.remarks.append(Remark(stated.lines[name], name, text, "programmed", now, why))


def _numbers(text: str, count: int) -> list[int]:
    """Return ``count`` numbers; those beyond the end are 0."""
    numbers = []
    for _ in range(count):
        value, rest = strtoul(text)
        numbers.append(value & 0xFFFFFFFF)
        text = rest[1:]
    return numbers


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0
