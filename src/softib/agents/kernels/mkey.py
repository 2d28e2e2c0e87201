"""Management keys, M_Key and CC_Key (IBA 14.2.4, A10.4.2): checks of a MAD's key, violation
counters, and leases.

``info`` is the wire image whose first eight bytes are the key. ``until[end]`` is the time in ps at
which the port's lease ends; 0 = no lease is running. A MAD with a wrong key starts the lease, and
one with the right key stops it. When the lease ends, the protection ends.
"""

from softib.agents.kernels.big_endian import get16, inner, put16, same
from softib.agents.kernels.notice import bad_mkey
from softib.iba.constants import Method
from softib.iba.smp import METHOD_AT, MKEY_AT
from softib.iba.smp import PortInfo as P

PS_PER_S = 1_000_000_000_000
WRONG, FITS, UNSET = 0, 1, 2


@inner
def key_state(info, until, end, m, key_at, protect_at, protect_bits, now):
    """Return UNSET, FITS or WRONG for the key at ``key_at`` of MAD ``m``. If the lease has ended,
    the ``protect_bits`` of byte ``protect_at`` are cleared first."""
    unset = True
    for i in range(8):
        if info[i]:
            unset = False
    if unset:
        return UNSET
    if until[end] != 0 and now >= until[end]:
        info[protect_at] &= 0xFF ^ protect_bits
        until[end] = 0
    if same(info, 0, m, key_at, 8):
        until[end] = 0
        return FITS
    return WRONG


@inner
def violated(info, until, end, violations_at, lease_at, now):
    """Count a wrong key, up to the counter's maximum. Start the lease unless it is already running
    (lease period 0: it never ends)."""
    violations, lease = get16(info, violations_at), get16(info, lease_at)
    if violations < 0xFFFF:
        put16(info, violations_at, violations + 1)
    if until[end] == 0 and lease > 0:
        until[end] = now + lease * PS_PER_S


GET = int(Method.GET)
PROTECT_AT, LEASE_AT, VIOLATIONS_AT = P.mkey_protect.byte, P.mkey_lease_period.byte, P.mkey_violations.byte
PROTECT_BITS = 0xC0


@inner
def admit(t, m, end, now, slid):
    """Return whether the SMP ``m`` may be executed on the node of end port ``end``. A wrong key is
    counted, starts the lease and raises trap 256. ``slid`` is the source LID of the SMP."""
    info = t.port_info[end]
    if key_state(info, t.mkey_until, end, m, MKEY_AT, PROTECT_AT, PROTECT_BITS, now) != WRONG:
        return True
    # At protection levels 0 and 1, any requester can read (14.2.4.1).
    if m[METHOD_AT] == GET and (info[PROTECT_AT] >> 6) < 2:
        return True
    violated(info, t.mkey_until, end, VIOLATIONS_AT, LEASE_AT, now)
    bad_mkey(t, m, now, end, slid)
    return False
