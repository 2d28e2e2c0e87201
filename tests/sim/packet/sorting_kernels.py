# mypy: ignore-errors
from softib.jit import kernel
from softib.sim.packet.kernels.engine.events import sort_due


@kernel
def sort_rows(s, n):
    """Sort the first ``n`` rows of ``s.due``."""
    sort_due(s, n)
    return 0
