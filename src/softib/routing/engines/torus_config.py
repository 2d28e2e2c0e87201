"""torus-2QoS.conf(5): the radixes of a torus or mesh, and the switches that mark the origin of its coordinates.

A file is accepted or rejected as by OpenSM 3.3.23. Keywords may come in any order (but a dateline
is checked against the radixes above it). Additional words in a line are ignored, and numbers are
parsed as by C's strtoul.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from softib.routing.engines.minhop import DoesNotFit

__all__ = ["MAX_PORTS", "Seed", "TorusConfig", "parse", "refusals"]

MAX_PORTS = 16
"""Default of ``portgroup_max_ports``: the largest number of parallel cables, and of a switch's
ports that do not lead to switches."""
AXES = "xyz"
AMBIGUOUS = 4
"""A ring of this length looks the same in both directions, so a seed names both directions."""
UNSIGNED = 0xFFFFFFFF
"""C's unsigned int, into which OpenSM stores ``portgroup_max_ports``."""
LEADING_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)")


@dataclass
class Seed:
    """``links``: (axis 0 to 2, +1 or -1) → (NodeGUID from, NodeGUID to). ``dateline``: distance of
    the origin from the common switch, by axis."""

    links: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    dateline: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass
class TorusConfig:
    """``radix`` and ``wraps`` (a torus ring, not a mesh line) by axis; ``seeds`` in the order of
    the file."""

    radix: list[int]
    wraps: list[bool]
    seeds: list[Seed]
    port_order: list[int]
    max_ports: int = MAX_PORTS


def parse(text: str) -> TorusConfig:
    """Return the configuration in ``text``. Raises :class:`DoesNotFit` with the line or the seed
    that OpenSM would reject."""
    reader, refused = _read(text)
    if refused:
        raise refused[0]
    return reader.done()


def refusals(text: str) -> list[str]:
    """Return all lines that OpenSM would reject, or the first seed that it would reject; empty if
    it accepts the file."""
    reader, refused = _read(text)
    if not refused:
        try:
            reader.done()
        except DoesNotFit as why:
            refused = [why]
    return [str(why) for why in refused]


def _read(text: str) -> tuple[_Reader, list[DoesNotFit]]:
    """Read every line, even after a line that is rejected."""
    reader, refused = _Reader(), list[DoesNotFit]()
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            reader.keyword(fields)
        except ValueError as error:
            refused.append(DoesNotFit(f"torus-2QoS.conf line {number}: {error}: {line.strip()!r}"))
        except IndexError:
            refused.append(DoesNotFit(f"torus-2QoS.conf line {number}: a word is missing: {line.strip()!r}"))
    return reader, refused


class _Reader:
    """Takes keywords in their order."""

    def __init__(self) -> None:
        self.config = TorusConfig([0, 0, 0], [True, True, True], [], [])
        self.sized = False

    def keyword(self, fields: list[str]) -> None:
        """Read one line. Raises :class:`ValueError` for input that OpenSM would reject, and
        IndexError if a word is missing."""
        name, config = fields[0], self.config
        if name in ("torus", "mesh"):
            self._topology(fields)
        elif name == "next_seed":
            config.seeds.append(Seed())
        elif name == "portgroup_max_ports":
            config.max_ports = _number(fields[1]) & UNSIGNED
        elif name == "port_order":
            config.port_order = list(dict.fromkeys(_number(w) for w in fields[1:]))
        elif name == "max_changes":
            _number(fields[1])
        elif name[1:] == "_dateline" and name[0] in AXES:
            self._dateline(AXES.index(name[0]), _number(fields[1]))
        elif name[1:] in ("p_link", "m_link") and name[0] in AXES:
            link = _number(fields[1]), _number(fields[2])
            self._seed.links[AXES.index(name[0]), 1 if name[1] == "p" else -1] = link
        else:
            raise ValueError("unknown keyword")

    @property
    def _seed(self) -> Seed:
        if not self.config.seeds:
            self.config.seeds.append(Seed())
        return self.config.seeds[-1]

    def _topology(self, fields: list[str]) -> None:
        config = self.config
        if self.sized:
            raise ValueError("a second torus or mesh")
        if fields[0] == "mesh":
            config.wraps = [False] * 3
        for axis in range(3):
            word = fields[1 + axis]
            digits = LEADING_NUMBER.match(word)
            config.radix[axis] = _number(word)
            suffix = word[digits.end() : digits.end() + 1].lower() if digits else ""
            if config.radix[axis] and suffix in ("t", "m"):
                config.wraps[axis] = suffix == "t"
        self.sized = True

    def _dateline(self, axis: int, value: int) -> None:
        most = self.config.radix[axis]
        self._seed.dateline[axis] = value
        if (value < 0 and value <= -most) or value >= most:
            why = "" if self.sized else "; torus or mesh should stand above it"
            raise ValueError(f"the dateline should be more than {-most} and less than {most} (OpenSM: ERR 4E10){why}")

    def done(self) -> TorusConfig:
        """Check the whole file after reading."""
        config = self.config
        if not all(config.radix):
            raise DoesNotFit("torus-2QoS.conf names no torus or mesh of three radixes (OpenSM: ERR 4E20)")
        if any(r < 0 for r in config.radix):
            raise DoesNotFit("torus-2QoS.conf: a radix is below 0")
        if not config.max_ports:
            raise DoesNotFit("torus-2QoS.conf: portgroup_max_ports 0 allows no link (OpenSM: ERR 4E17)")
        if config.max_ports > UNSIGNED // 2:
            raise DoesNotFit(
                "torus-2QoS.conf: portgroup_max_ports is below 0 or too large (OpenSM: ERR 4E15, no memory)"
            )
        config.wraps = [w and r > 1 for w, r in zip(config.wraps, config.radix, strict=True)]
        config.seeds = config.seeds or [Seed()]
        for number, seed in enumerate(config.seeds, 1):
            _check(config, seed, f"torus-2QoS.conf: seed {number}")
        return config


def _check(config: TorusConfig, seed: Seed, where: str) -> None:
    """Check that a seed has a link along each axis (on a ring of four, in both directions), and all links
    begin at one switch."""
    for axis, name in enumerate(AXES):
        both = config.radix[axis] == AMBIGUOUS and config.wraps[axis]
        missing = [sign for sign in (1, -1) if (axis, sign) not in seed.links]
        if both and missing:
            raise DoesNotFit(
                f"{where} has no {name}{'p' if 1 in missing else 'm'}_link; where a ring has {AMBIGUOUS} switches "
                f"it should name both directions (OpenSM: ERR 4E22 to 4E29)"
            )
        if config.radix[axis] > 1 and len(missing) == 2:
            raise DoesNotFit(f"{where} has no link along {name} (OpenSM: ERR 4E2B, 4E2C, 4E2E)")
    if len({start for (axis, _), (start, _) in seed.links.items() if config.radix[axis] > 1}) > 1:
        raise DoesNotFit(f"{where}: all links of a seed should begin at one switch (OpenSM: ERR 4E24 to 4E2F)")


def _number(word: str) -> int:
    """Return the number that C's strtoul and strtol would return: base 8, 10 or 16 by prefix,
    trailing text ignored, 0 if there are no digits."""
    match = LEADING_NUMBER.match(word)
    if match is None:
        return 0
    text = match[0].lower()
    digits = text.lstrip("+-")
    if digits.startswith("0x"):
        value = int(digits, 16)
    elif digits.startswith("0"):
        value = int("0" + (re.match(r"[0-7]*", digits) or [""])[0], 8)
    else:
        value = int(digits)
    return -value if text.startswith("-") else value
