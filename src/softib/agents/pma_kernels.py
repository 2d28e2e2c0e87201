# mypy: ignore-errors
"""The performance management agent (IBA 16.1)."""

from softib.iba import constants as c
from softib.jit import kernel

BAD_ATTRIBUTE = int(c.MadStatus.BAD_ATTRIBUTE)


@kernel(_nrt=False)
def perf_agent(t, m, ingress):
    """Answer Get or Set of one PerfMgt attribute; returns the status."""
    return BAD_ATTRIBUTE
