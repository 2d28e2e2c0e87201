"""Which management classes, versions and methods of unsolicited MADs a program registers for at a
umad device."""

from __future__ import annotations

from softib.iba.constants import Method, MgmtClass
from softib.iba.sa import SaMethod

__all__ = ["ASKS", "CLASS_VERSION", "MANAGES"]


def _mask(*methods: int) -> int:
    return sum(1 << int(m) for m in methods)


ASKS: dict[int, int] = {int(MgmtClass.SUBN_DR): 0, int(MgmtClass.SUBN_LID): 0}
"""Management class → methods of unsolicited MADs that are taken: none, who only asks."""
MANAGES: dict[int, int] = {
    int(MgmtClass.SUBN_DR): _mask(Method.GET, Method.SET, Method.TRAP),
    int(MgmtClass.SUBN_LID): _mask(Method.GET, Method.SET, Method.TRAP),
    int(MgmtClass.SUBN_ADM): _mask(
        SaMethod.GET, SaMethod.SET, SaMethod.GET_TABLE, SaMethod.GET_TRACE_TABLE, SaMethod.GET_MULTI, SaMethod.DELETE
    ),
    int(MgmtClass.CONG_CTRL): 0,
    int(MgmtClass.SHARP): 0,
    int(MgmtClass.SM_REPLICA): _mask(Method.GET, Method.SET),
}
"""What a subnet manager and administrator takes (OpenSM's own registrations, and replication)."""
CLASS_VERSION = {int(MgmtClass.SUBN_ADM): 2, int(MgmtClass.CONG_CTRL): 2}
