"""What the numbers of a cell mean: ``preload/verbs/fabric/traffic.h`` for kernels (a test
compares), and the columns of :data:`softib.live.verbs.traffic.Cells` that are the daemon's own."""

# Numbers (uint32, uint64) of a cell; SOFTIB_* constants.
CHUNK, LINKS_ROOM = 64, 40
MAX_LINKS = 128
"""SV_PATH_LINKS; a multicast tree has no more links than there are ports."""
FREE, TAKEN, LIVE, RETIRED, MORE = range(5)
STATE, NEXT, LINKS, DROP, KINDS, LIDS, KEY, QP, CORRUPTED, EGRESS = 0, 1, 3, 5, 7, 8, 9, 10, 14, 24
PACKETS, DWORDS = 8, 10
OWNER, DIRTY = 0, 1
HIGH, PACED = 6, 11
"""Numbers of the file's head: how many chunks were ever claimed; 1 = a program takes the wire's
time."""
CLOCK_WAIT = 1
(
    INACTIVE_DROP,
    MTU_DROP,
    DLID_DROP,
    VL_DROP,
    XMIT_DROP,
    RCV_DROP,
    PKEY_DROP,
    QKEY_DROP,
    HOQ_DROP,
    HELD_DROP,
    OVERRUN_DROP,
) = range(1, 12)
LAST_TRAP, SEEN_CORRUPTED = 4, 5
"""Columns of ``seen``: when this cell raised its last trap, ps; corrupted packets, forward and
back."""
