"""Which records of the administrator changed since somebody asked last, so that standbys get those
alone."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Journal", "Kind", "alias_key", "group_key", "member_key", "service_key", "subscription_key"]


class Kind(IntEnum):
    """First octet of a record's key."""

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
    """Keys of records, each once, in the order in which they changed last."""

    def __init__(self) -> None:
        self._keys: dict[bytes, None] = {}

    def note(self, key: bytes) -> None:
        """This record was made, changed or deleted."""
        self._keys.pop(key, None)
        self._keys[key] = None

    def take(self) -> list[bytes]:
        """The keys; none is left."""
        keys = list(self._keys)
        self._keys.clear()
        return keys


def group_key(mgid: bytes) -> bytes:
    """Key of a multicast group."""
    return bytes((Kind.GROUP,)) + mgid


def member_key(mgid: bytes, guid: int) -> bytes:
    """Key of the membership of a PortGUID in a group."""
    return bytes((Kind.MEMBER,)) + mgid + guid.to_bytes(8, "big")


def service_key(name: bytes) -> bytes:
    """Key of a service; ``name`` are ServiceID, GID and P_Key."""
    return bytes((Kind.SERVICE,)) + name


def alias_key(guid: int, block: int) -> bytes:
    """Key of a block of alias GUIDs of a PortGUID."""
    return bytes((Kind.ALIAS,)) + guid.to_bytes(8, "big") + bytes((block,))


def subscription_key(gid: tuple[int, int], lid: int, qp: int, inform: bytes) -> bytes:
    """Key of a subscription, which is all there is of it."""
    head = gid[0].to_bytes(8, "big") + gid[1].to_bytes(8, "big") + lid.to_bytes(2, "big") + qp.to_bytes(4, "big")
    return bytes((Kind.SUBSCRIPTION,)) + head + inform
