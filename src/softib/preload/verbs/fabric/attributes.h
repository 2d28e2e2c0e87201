/*
 * Offsets of fields in the wire images of PortInfo and SwitchInfo (IBA 14.2.5.6, 14.2.5.4), and the
 * codes that the data path uses. The declaration is softib/iba/smp.py;
 * tests/preload/verbs/engine/test_layout.py compares the two.
 */
#ifndef SOFTIB_VERBS_ATTRIBUTES_H
#define SOFTIB_VERBS_ATTRIBUTES_H

#define SV_GID_PREFIX_AT 8
#define SV_LID_AT 16
#define SV_MASTER_SM_LID_AT 18
#define SV_CAP_MASK_AT 20
#define SV_LINK_WIDTH_ACTIVE_AT 31
#define SV_STATE_AT 32           /* low half */
#define SV_PHYS_STATE_AT 33      /* high half */
#define SV_LMC_AT 34             /* low three bits */
#define SV_SPEED_ACTIVE_AT 35    /* high half */
#define SV_NEIGHBOR_MTU_AT 36    /* high half; MasterSMSL in the low one */
#define SV_VL_CAP_AT 37          /* high half */
#define SV_VL_HIGH_LIMIT_AT 38
#define SV_INIT_TYPE_REPLY_AT 41 /* high half; MTUCap in the low one */
#define SV_OPERATIONAL_VLS_AT 43 /* high half; then enforcement inbound (8), outbound (4) */
#define SV_HOQ_LIFE_AT 42        /* low five bits */
#define SV_ENFORCE_IN 8
#define SV_ENFORCE_OUT 4
#define SV_PKEY_VIOLATIONS_AT 46
#define SV_QKEY_VIOLATIONS_AT 48
#define SV_GUID_CAP_AT 50
#define SV_SUBNET_TIMEOUT_AT 51  /* low five bits */
#define SV_EXT2_AT 56            /* 0x60: XDR active */
#define SV_CAP_MASK2_AT 60
#define SV_SPEED_EXT_ACTIVE_AT 62 /* high half */

#define SV_LINEAR_FDB_TOP_AT 6
#define SV_MCAST_FDB_CAP_AT 4
#define SV_MCAST_FDB_TOP_AT 18

#define SV_FR_ENABLED_AT 3       /* ARInfo (softib/iba/vendor/ar.py) */
#define SV_FR_ENABLED 16
#define SV_AR_ENABLED 1          /* bit of the byte at SV_FR_ENABLED_AT */
#define SV_AR_NO_FALLBACK 1      /* bit of the first byte of ARInfo */
#define SV_AR_BY_SL 16
#define SV_AR_SLS_AT 8
#define SV_AR_TRANSPORTS_AT 15
#define SV_AR_AGEING_AT 16
#define SV_AR_INFO_OCTETS 20
#define SV_AR_GROUP_MASK 0x0FFF  /* in the column ar_lft; the higher bits are the LID's state */
#define SV_AR_STATE_SHIFT 14

#define SV_NODE_CA 1
#define SV_NODE_SWITCH 2
#define SV_PORT_DOWN 1
#define SV_PORT_INIT 2
#define SV_PORT_ARMED 3
#define SV_PORT_ACTIVE 4
#define SV_PHYS_LINK_UP 5
#define SV_LID_MCAST_MIN 0xC000
#define SV_LID_PERMISSIVE 0xFFFF
#define SV_PKEY_MEMBER 0x8000
#define SV_PKEY_PARTITION 0x7FFF

#endif
