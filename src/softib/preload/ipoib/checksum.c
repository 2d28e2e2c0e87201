/* The Internet checksum (RFC 1071). Sums are over 16-bit words in memory order, so results are
 * stored without a byte swap. */
#include "ipoib.h"

#include <string.h>

/* Return `sum` plus the 16-bit words of `length` bytes. */
uint32_t sum16(const uint8_t *p, size_t length, uint32_t sum)
{
    unsigned __int128 a = sum, b = 0;
    uint64_t word, half;

    for (; length >= 32; p += 32, length -= 32) {
        uint64_t w[4];

        memcpy(w, p, sizeof w);
        a += w[0];
        b += w[1];
        a += w[2];
        b += w[3];
    }
    for (; length; p += 8, length -= length < 8 ? length : 8) {
        word = 0;
        memcpy(&word, p, length < 8 ? length : 8);
        a += word;
    }
    a += b;
    half = (uint64_t)a + (uint64_t)(a >> 64);
    half += half < (uint64_t)a;
    half = (half >> 32) + (half & 0xffffffffu);
    half = (half >> 32) + (half & 0xffffffffu);
    half = (half >> 16) + (half & 0xffffu);
    return (uint32_t)((half >> 16) + (half & 0xffffu));
}

uint16_t fold(uint32_t sum)
{
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return (uint16_t)~sum;
}
