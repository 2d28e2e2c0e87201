"""The journal of the subnet administrator: the keys of the records that changed since the journal
was last read. Standbys receive only these records (:mod:`softib.sm.replication`)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Journal", "Kind", "record_key"]


class Kind(IntEnum):
    """First byte of a record's key."""

    GROUP = 1
    MEMBER = 2
    SERVICE = 3
    SUBSCRIPTION = 4
    LID = 5
    ROOT = 6
    MADE = 7
    PARTITIONS = 8
    ALIAS = 9
    MKEY = 10
    SLS = 11
    ABSENT = 12
    WRITTEN = 13


class Journal:
    """Keys of records in the order of their last change; each key occurs once."""

    def __init__(self) -> None:
        self._keys: dict[bytes, None] = {}

    def note(self, key: bytes) -> None:
        """Note that this record was created, changed or deleted."""
        self._keys.pop(key, None)
        self._keys[key] = None

    def take(self) -> list[bytes]:
        """Return the keys, and clear the journal."""
        keys = list(self._keys)
        self._keys.clear()
        return keys


def record_key(kind: Kind, *parts: bytes | int) -> bytes:
    """Return the key of a record of this kind; integers (GUIDs) take 8 bytes."""
    return bytes((kind,)) + b"".join(p if isinstance(p, bytes) else p.to_bytes(8, "big") for p in parts)
