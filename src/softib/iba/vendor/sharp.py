"""Aggregation trees (SHARP): the aggregation management class 0x0b.

The class and its attribute IDs are public, but no layout was found under an open licence. **softib
defines every layout here**, following the description of the protocol by Graham et al. ("Scalable
Hierarchical Aggregation Protocol (SHArP): A Hardware Architecture for Efficient Data Reduction",
COMHPC 2016). Reliable connections between QPs join aggregation nodes to trees. A tree has one root;
each of its nodes has a parent and children. A job gets a tree and a quota of the tree's resources.
So a manager for NVIDIA's devices does not work with softib's devices, and softib's manager does not
work with NVIDIA's devices.

The class version is 1. Data begins at byte 64 of the MAD. Bytes 24-31 are the key of the class,
which softib's devices do not check.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "CHILD_BLOCK",
    "OTHER_TREES",
    "SHARP_CHILDREN",
    "SHARP_CLASS_VERSION",
    "SHARP_QPS",
    "SHARP_TREES",
    "ANInfo",
    "QPAllocation",
    "QPCConfig",
    "QuotaConfig",
    "TreeConfig",
]

SHARP_CLASS_VERSION = 1
SHARP_TREES, SHARP_CHILDREN, SHARP_QPS = 1024, 64, 4096
"""Capacity of an aggregation node's tables: number of trees (IDs from 0), children of a tree, and
QPs (QPNs from 1; 0 means none)."""
CHILD_BLOCK = 32
"""Number of children in a TreeConfig block."""
DISABLED, ENABLED = 0, 1
"""Values of ``tree_state`` and ``qp_state``."""
LATENCY, STREAMING = 0, 1
"""Kinds of trees. LATENCY (LLT): many small reductions at the same time. STREAMING (SAT): streaming
aggregation of large reductions, which uses the whole data path of a switch."""


OTHER_TREES = 63
"""Number of trees of an aggregation node if its switch is not in :mod:`softib.iba.catalogue`;
assumed.
"""


class ANInfo(Structure, size=32, attr=0x20, section="softib's own"):
    """Capabilities of an aggregation node. Only Get is supported."""

    tree_cap = field(16, "trees; tree IDs are 0 … tree_cap - 1")
    streaming_tree_cap = field(16, "streaming trees that may be enabled at a time")
    child_cap = field(16, "children of a tree")
    _reserved0 = reserved(16)
    qp_cap = field(32, "QPNs are 1 … qp_cap - 1")
    qp_used = field(32, "lowest free QPN")
    group_cap = field(32, "groups (communicators) of all jobs")
    ost_cap = field(32, "outstanding operations of all jobs")
    buffer_cap = field(32, "bytes of buffers of all jobs")
    _reserved1 = reserved(32)


class QPAllocation(Structure, size=16, attr=0x21, section="softib's own"):
    """Reservation of QPs. A Get returns the QPs in use."""

    release = field(8, "Set: 1 = first disable all trees of the node and free all its QPs")
    _reserved0 = reserved(8)
    count = field(16, "QPs to reserve; answer to a Get: QPs in use")
    first_qpn = field(32, "answer to a Set: the first of them; they are consecutive")
    _reserved1 = reserved(64)


class QPCConfig(Structure, size=16, attr=0x22, section="softib's own"):
    """Context of the QP in AttributeModifier, with the destination of its connection."""

    qp_state = field(8, "0 disabled, 1 enabled")
    mtu = field(4, "MTU code of the path")
    sl = field(4, "SL of the path")
    pkey = field(16, "P_Key")
    remote_lid = field(16, "LID of the aggregation node at the other end")
    _reserved0 = reserved(16)
    remote_qpn = field(32, "its QP")
    _reserved1 = reserved(32)


class TreeConfig(Structure, size=144, attr=0x23, section="softib's own"):
    """The part of one tree that one node has. AttributeModifier: tree ID in bits 0-15, block of
    children in bits 16-23. A Set of block 0 also writes the head of the attribute; a Set of another
    block changes only the children in that block."""

    tree_state = field(8, "0 disabled, 1 enabled")
    kind = field(8, "0 latency, 1 streaming")
    children = field(16, "children of this node in the tree")
    parent_qpn = field(32, "own QP towards the parent, 0 = this node is the root")
    _reserved0 = reserved(64)
    child_qpn = array(CHILD_BLOCK, 32, "own QP towards each child, 0 = none")


class QuotaConfig(Structure, size=16, attr=0x24, section="softib's own"):
    """A job's quota of the tree whose ID is AttributeModifier."""

    groups = field(32, "groups (communicators)")
    osts = field(32, "outstanding operations")
    buffers = field(32, "octets of buffers")
    payload = field(32, "largest operation in bytes")
