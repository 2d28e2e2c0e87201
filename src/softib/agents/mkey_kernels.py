# mypy: ignore-errors
"""The M_Key: who may manage a port (IBA 14.2.4)."""

from softib.agents.octet_kernels import get16, inner, put16, same
from softib.iba.constants import Method
from softib.iba.smp import PortInfo as P

GET = int(Method.GET)
SMP_MKEY_AT = 24
PROTECT_AT, LEASE_AT, VIOLATIONS_AT = P.mkey_protect.byte, P.mkey_lease_period.byte, P.mkey_violations.byte
PS_PER_S = 1_000_000_000_000


@inner
def admit(t, m, end, now):
    """True when the SMP ``m`` may act on the node of end port ``end``. A wrong key is counted and starts the lease."""
    info = t.port_info[end]
    unset = True
    for i in range(8):
        if info[i]:
            unset = False
    if unset:
        return True
    until = t.mkey_until[end]
    if until != 0 and now >= until:
        # The lease ended without the owner: the protection falls (14.2.4.2).
        info[PROTECT_AT] &= 0x3F
        t.mkey_until[end] = 0
    if same(info, 0, m, SMP_MKEY_AT, 8):
        t.mkey_until[end] = 0
        return True
    if m[3] == GET and (info[PROTECT_AT] >> 6) < 2:
        return True
    violations = get16(info, VIOLATIONS_AT)
    if violations < 0xFFFF:
        put16(info, VIOLATIONS_AT, violations + 1)
    lease = get16(info, LEASE_AT)
    if t.mkey_until[end] == 0 and lease > 0:
        t.mkey_until[end] = now + lease * PS_PER_S
    return False
