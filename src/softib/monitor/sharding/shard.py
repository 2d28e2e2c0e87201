"""A shard: the part of a subnet that one of several exporters reads. NodeGUIDs determine the shard of each device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.errors import InputError

__all__ = ["Shard", "shard_memories", "shard_memory"]

_FORM = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")
MOST = 256
_NAMED = "shard {}-of-{} {}"


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of the ``of`` parts of the subnet of ``source``, for an :class:`Exporter`. A device's
    NodeGUID alone determines the part to which the device belongs."""

    source: str
    number: int
    of: int

    @classmethod
    def parse(cls, source: str, text: str) -> Shard:
        """Return the shard for a text like ``2/4`` (the second of four). Raises :class:`InputError` for other texts."""
        form = _FORM.fullmatch(text)
        number, of = (int(form[1]), int(form[2])) if form else (0, 0)
        if not 1 <= number <= of <= MOST:
            raise InputError(f"shard {text!r}: use I/N with I from 1 to N, and N up to {MOST}, for example 2/4")
        return cls(source, number, of)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, guids: np.ndarray) -> np.ndarray:
        """Return whether each NodeGUID belongs to this part (bool[n]). The finalizer of splitmix64 distributes GUIDs
        evenly even if they are numbered in steps."""
        x = np.asarray(guids, np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray((x ^ (x >> np.uint64(31))) % np.uint64(self.of) == np.uint64(self.number - 1))


def shard_memory(memory: Path, shard: Shard) -> Path:
    """Return the file of the memory of one shard; ``memory`` is the file of an exporter of the whole subnet."""
    return memory.with_name(_NAMED.format(shard.number, shard.of, memory.name))


def shard_memories(memory: Path) -> list[Path]:
    """Return ``memory``, and the files of its shards that exist."""
    return [memory, *sorted(memory.parent.glob(_NAMED.format("*", "*", memory.name)))]
