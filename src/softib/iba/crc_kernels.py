"""The variant CRC (VCRC) of InfiniBand packets (IBA 7.8.2). The polynomial is x^16 + x^12 + x^3 + x
+ 1, bits are processed least significant first, and the seed and the final inversion are all
ones."""

import numpy as np

from softib.jit import kernel

REFLECTED = 0xD008
"""The polynomial 0x100B with its bits in the order in which they are sent."""


def _table():
    c = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        c = (c >> 1) ^ np.where(c & 1, np.uint16(REFLECTED), np.uint16(0))
    return c.astype(np.int64)


TABLE = _table()


@kernel(_nrt=False)
def vcrcs(packets):
    """Compute the VCRC of each row of ``packets`` (uint8[n, size]). Write it to the row's last two
    bytes, in the order in which they are sent."""
    end = packets.shape[1] - 2
    for r in range(packets.shape[0]):
        crc = np.int64(0xFFFF)
        for i in range(end):
            crc = (crc >> 8) ^ TABLE[(crc ^ np.int64(packets[r, i])) & 255]
        crc ^= 0xFFFF
        packets[r, end], packets[r, end + 1] = crc & 255, crc >> 8
