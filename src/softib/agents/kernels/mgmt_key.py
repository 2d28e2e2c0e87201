"""What a management key does, M_Key and CC_Key alike (IBA 14.2.4, A10.4.2): violations and the
lease.

``info`` is the wire image whose first eight octets are the key; ``until[end]`` the time in ps at
which its lease ends, 0 = none runs. The lease begins with a wrong key and ends with the right one;
when it runs out, the protection falls.
"""

from softib.agents.kernels.big_endian import get16, inner, put16, same

PS_PER_S = 1_000_000_000_000
WRONG, FITS, UNSET = 0, 1, 2


@inner
def key_state(info, until, end, m, key_at, protect_at, protect_bits, now):
    """UNSET, FITS, or WRONG of the key at ``key_at`` of MAD ``m``. Time is let pass first: a lease
    that is over clears the ``protect_bits`` of octet ``protect_at``."""
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
    """Count a wrong key, up to the counter's maximum, and begin the lease where none runs (period
    0: it never ends)."""
    violations, lease = get16(info, violations_at), get16(info, lease_at)
    if violations < 0xFFFF:
        put16(info, violations_at, violations + 1)
    if until[end] == 0 and lease > 0:
        until[end] = now + lease * PS_PER_S
