"""Events that no MAD causes: links that fail or train, the passage of time, and traps raised by the
hardware or by the host."""

from softib.agents.kernels.big_endian import copy
from softib.agents.kernels.faults.ber import rates_of_loss, settle
from softib.agents.kernels.notice import local_change, notice
from softib.agents.kernels.port_info import drop, fail, train
from softib.agents.kernels.samples import advance
from softib.agents.kernels.sma import describe
from softib.jit import kernel


@kernel(_nrt=False)
def set_link(t, port, up, now):
    """Let the hardware take down the link at ``port``, or (``up``) let it train again."""
    if up:
        train(t, port, now)
    else:
        drop(t, port, now)


@kernel(_nrt=False)
def fail_port(t, port, now):
    """Take this end of the link at ``port`` down, because the other end was removed."""
    fail(t, port, now)


@kernel(_nrt=False)
def settle_ports(t, ports, now):
    """Update the counters of ``ports`` (int64[n]) to time ``now``."""
    for i in range(ports.shape[0]):
        settle(t, ports[i], now)


@kernel(_nrt=False)
def loss_of_ports(t, ports, loss):
    """Write the probability that bit errors destroy a packet into ``ports`` to rows of ``loss``
    (float64[all ports, 2])."""
    for i in range(ports.shape[0]):
        port = ports[i]
        loss[port, 0], loss[port, 1] = rates_of_loss(t, port)


@kernel(_nrt=False)
def sample_until(t, now):
    """Advance the sampling mechanisms of all ports to time ``now``."""
    advance(t, now)


@kernel(_nrt=False)
def raise_change_traps(t, node, flags, now):
    """Queue trap 144 on every end port of ``node``. ``flags`` 1 = NodeDescription changed, 0 =
    CapabilityMask changed."""
    describe(t, node, now, flags)


@kernel(_nrt=False)
def raise_local_change(t, end, flags, now):
    """Queue trap 144 on one end port."""
    local_change(t, now, end, flags)


@kernel(_nrt=False)
def raise_trap(t, end, trap, number, data, now):
    """Queue a trap whose 54 bytes of DataDetails are given."""
    row = notice(t, now, end, trap, number)
    if row >= 0:
        copy(t.notice_data[row], 0, data, 0, 54)
