/* Byte offsets of MAD fields; tests/preload/umad/test_mad_layout.py compares them with softib/iba. */
#ifndef SOFTIB_UMAD_MAD_LAYOUT_H
#define SOFTIB_UMAD_MAD_LAYOUT_H

enum { CLASS_AT = 1, METHOD_AT = 3, TID_LOW_AT = 12, MAD_HEADER = 24 }; /* MADHeader, IBA 13.4.3 */
enum {                                                                  /* RMPP header, IBA 13.6.2.1 */
    RMPP_VERSION_AT = 24,
    RMPP_TYPE_AT = 25,
    RMPP_FLAGS_AT = 26,
    RMPP_STATUS_AT = 27,
    RMPP_SEGMENT_AT = 28,
    RMPP_PAYLOAD_AT = 32,
};

#endif
