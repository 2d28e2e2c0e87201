"""The M_Key: who may manage a port (IBA 14.2.4)."""

from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.mgmt_key import WRONG, key_state, violated
from softib.agents.kernels.notice import bad_mkey
from softib.iba.constants import Method
from softib.iba.smp import METHOD_AT, MKEY_AT
from softib.iba.smp import PortInfo as P

GET = int(Method.GET)
PROTECT_AT, LEASE_AT, VIOLATIONS_AT = P.mkey_protect.byte, P.mkey_lease_period.byte, P.mkey_violations.byte
PROTECT_BITS = 0xC0


@inner
def admit(t, m, end, now, slid):
    """True when the SMP ``m`` may act on the node of end port ``end``. A wrong key is counted,
    starts the lease and raises trap 256. ``slid``: source LID of the SMP."""
    info = t.port_info[end]
    if key_state(info, t.mkey_until, end, m, MKEY_AT, PROTECT_AT, PROTECT_BITS, now) != WRONG:
        return True
    # Levels 0 and 1 let everybody read (14.2.4.1).
    if m[METHOD_AT] == GET and (info[PROTECT_AT] >> 6) < 2:
        return True
    violated(info, t.mkey_until, end, VIOLATIONS_AT, LEASE_AT, now)
    bad_mkey(t, m, now, end, slid)
    return False
