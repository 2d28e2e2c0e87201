"""Errors by lane of links with 64b/66b blocks, and what FEC mends (IBA 16.1.4;
ClassPortInfo.CapabilityMask bit 14)."""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = ["PortExtendedSpeedsCounters"]


class PortExtendedSpeedsCounters(Structure, size=152, attr=0x1F, section="16.1.4"):
    """Errors of 64b/66b lanes (FDR and EDR), and of RS-FEC.

    CounterSelect counts the counters in this order. With RS-FEC active,
    ``fec_correctable_block_ctr`` counts corrected symbols of each lane.
    """

    _reserved0 = reserved(8)
    port_select = field(8, "portnum, 255 = all")
    _reserved1 = reserved(48)
    counter_select = field(64, "counters that a Set writes")
    sync_header_error_counter = field(16, "blocks with a bad sync header")
    unknown_block_counter = field(16, "blocks of unknown type")
    error_detection_counter = array(12, 16, "by lane")
    fec_correctable_block_ctr = array(12, 32, "by lane")
    fec_uncorrectable_block_ctr = array(12, 32, "by lane")
    port_fec_correctable_block_ctr = field(32, "RS-FEC: blocks that it mended")
    port_fec_uncorrectable_block_ctr = field(32, "RS-FEC: blocks that it could not mend")
    port_fec_corrected_symbol_ctr = field(32, "RS-FEC: symbols that it mended")
