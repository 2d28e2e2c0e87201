"""torus-2QoS.conf(5): the radixes of a torus or mesh, and switches that say where its coordinates begin."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.routing.fallback import DoesNotFit

__all__ = ["MAX_PORTS", "Seed", "TorusConfig", "parse"]

MAX_PORTS = 16
"""``portgroup_max_ports``: parallel cables, and ports that are not between switches, at most (the default)."""
AXES = "xyz"


@dataclass
class Seed:
    """``links`` (axis 0 to 2, +1 or -1) → (NodeGUID from, NodeGUID to); ``dateline``: how far the origin lies from the common
    switch, by axis."""

    links: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    dateline: list[int] = field(default_factory=lambda: [0, 0, 0])


@dataclass
class TorusConfig:
    """``radix`` and ``wraps`` (a torus ring, not a mesh line) by axis; ``seeds`` in the order of the file."""

    radix: list[int]
    wraps: list[bool]
    seeds: list[Seed]
    port_order: list[int]
    max_ports: int = MAX_PORTS


def parse(text: str) -> TorusConfig:
    """The configuration in ``text``. Raises :class:`DoesNotFit` with the line that is wrong.

    As for OpenSM the first word must be ``torus`` or ``mesh``, words beyond those a keyword takes are ignored, and so are
    keywords that only change its log (``max_changes``).
    """
    config: TorusConfig | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            if fields[0] in ("torus", "mesh"):
                config = _topology(fields)
            elif config is None:
                raise ValueError("the first keyword should be torus or mesh")
            else:
                _keyword(config, fields)
        except ValueError as error:
            raise DoesNotFit(f"torus-2QoS.conf line {number}: {error}: {line.strip()!r}") from None
        except IndexError:
            raise DoesNotFit(f"torus-2QoS.conf line {number}: a word is missing: {line.strip()!r}") from None
    if config is None:
        raise DoesNotFit("torus-2QoS.conf names no torus or mesh")
    return config


def _topology(fields: list[str]) -> TorusConfig:
    if len(fields) < 4:
        raise ValueError("it should have three radixes")
    radix, wraps = [], []
    for word in fields[1:4]:
        suffix = word[-1] if word[-1] in "mMtT" else ""
        radix.append(_whole(word.removesuffix(suffix)))
        wraps.append(suffix in "tT" if suffix else fields[0] == "torus")
        if radix[-1] < 1:
            raise ValueError("a radix should be 1 or more")
    return TorusConfig(radix, [w and r > 1 for w, r in zip(wraps, radix, strict=True)], [Seed()], [])


def _keyword(config: TorusConfig, fields: list[str]) -> None:
    name, seed = fields[0], config.seeds[-1]
    if name == "next_seed":
        config.seeds.append(Seed())
    elif name == "portgroup_max_ports":
        config.max_ports = _whole(fields[1])
    elif name == "port_order":
        config.port_order = list(dict.fromkeys(_whole(w) for w in fields[1:]))
    elif name == "max_changes":
        pass
    elif name[1:] == "_dateline" and name[0] in AXES:
        seed.dateline[AXES.index(name[0])] = _whole(fields[1])
    elif name[1:] in ("p_link", "m_link") and name[0] in AXES:
        link = _guid(fields[1]), _guid(fields[2])
        if any(start != link[0] for start, _ in seed.links.values()):
            raise ValueError("all links of a seed should begin at one switch")
        seed.links[AXES.index(name[0]), 1 if name[1] == "p" else -1] = link
    else:
        raise ValueError("unknown keyword")


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"{word!r} should be a whole number") from None


def _guid(word: str) -> int:
    try:
        return int(word, 0)
    except ValueError:
        raise ValueError(f"{word!r} should be a NodeGUID such as 0x0002c90300000001") from None
