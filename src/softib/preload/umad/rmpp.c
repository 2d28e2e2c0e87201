/* RMPP headers (IBA 13.6.2). The daemon transports an RMPP message as one piece; programs see the kernel's format. */
#include "internal.h"
#include "mad_layout.h"
#include "management.h" /* softib/iba/constants.py */

#include <string.h>

enum { ACTIVE = 1, FIRST = 2, LAST = 4, TYPE_DATA = 1, RMPP_DATA = 220 };

bool class_has_rmpp(uint8_t mgmt_class)
{
    return mgmt_class == SUBN_ADM || mgmt_class == DEV_ADM || mgmt_class == BIS ||
           (mgmt_class >= VENDOR2_FIRST && mgmt_class <= VENDOR2_LAST);
}

bool rmpp_is_active(const uint8_t *mad)
{
    return class_has_rmpp(mad[CLASS_AT]) && mad[RMPP_FLAGS_AT] & ACTIVE;
}

/* Bytes before the payload in every segment (IBA 15.2.1.1, 16.3.1, 16.5.1). */
static size_t header_of(uint8_t mgmt_class)
{
    if (mgmt_class == SUBN_ADM)
        return 56;
    return mgmt_class >= VENDOR2_FIRST ? 40 : 64;
}

static void put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

void rmpp_first_segment(uint8_t *mad, size_t length)
{
    size_t header = header_of(mad[CLASS_AT]), each = SOFTIB_UMAD_MAD - header;
    size_t data = length > header ? length - header : 0, segments = data ? (data + each - 1) / each : 1;

    mad[RMPP_VERSION_AT] = 1;
    mad[RMPP_TYPE_AT] = TYPE_DATA;
    mad[RMPP_FLAGS_AT] = (uint8_t)((mad[RMPP_FLAGS_AT] & 0xf8) | ACTIVE | FIRST | (segments == 1 ? LAST : 0));
    mad[RMPP_STATUS_AT] = 0;
    put32(mad + RMPP_SEGMENT_AT, 1);
    /* Payload length of the whole message, in which the class header counts once per segment. */
    put32(mad + RMPP_PAYLOAD_AT, (uint32_t)(segments * RMPP_DATA - (segments * each - data)));
}
