# mypy: ignore-errors
"""Congestion control (IBA annex A10): switches mark packets with FECN, destinations answer with BECN, sources slow down."""

from softib.jit import inner


@inner
def mark(n, s, k, came_in, out, row):
    """Packet ``k`` was queued for port VL ``row`` of ``out``: does the switch set its FECN bit?"""
    return


@inner
def forward_notice(n, s, port, k, now):
    """A packet with FECN arrived at ``port``."""
    return


@inner
def backward(n, s, port, q, now):
    """A packet with BECN arrived for ``q``."""
    return


@inner
def slower_no_more(n, s, flow, now):
    """CCTI timer."""
    return
