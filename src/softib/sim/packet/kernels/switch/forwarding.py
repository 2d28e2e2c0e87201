"""The linear forwarding table of a switch: what data, management packets and Ethernet without ECMP
go by."""

import numpy as np

from softib.jit import inner

NO_ROUTE = 255


@inner
def by_table(net, came_in, dlid):
    """The port that the forwarding table of ``came_in``'s switch has for ``dlid`` (its port 0: the
    switch itself), -1 for none."""
    if dlid >= net.lft.shape[1]:
        return np.int64(-1)
    num = np.int64(net.lft[net.port[came_in].switch, dlid])
    if num == NO_ROUTE or num >= net.port[came_in].ports:
        return np.int64(-1)
    return np.int64(net.port[came_in].port_0) + num
