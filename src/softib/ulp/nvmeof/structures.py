"""Structures of NVMe and its RDMA binding as NumPy dtypes. All numbers are little endian; unnamed
bytes are reserved and zero."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "ANA_GROUP",
    "ANA_HEADER",
    "CM_ACCEPT",
    "CM_REJECT",
    "CM_REQUEST",
    "COMMAND",
    "COMPLETION",
    "CONNECT_DATA",
    "CONTROLLER",
    "DISCOVERY_ENTRY",
    "DISCOVERY_HEADER",
    "ERROR_ENTRY",
    "IN_CAPSULE",
    "KEYED",
    "NAMESPACE",
    "SMART",
    "one",
    "read_structure",
]


def _layout(size: int, text: str) -> np.dtype[Any]:
    """Return the dtype of a structure of ``size`` bytes. ``text`` has the name, type and offset of each field."""
    tokens = text.split()
    fields: dict[str, Any] = {"names": tokens[0::3], "formats": [f"<{kind}" for kind in tokens[1::3]]}
    offsets = [int(offset) for offset in tokens[2::3]]
    layout: np.dtype[Any] = np.dtype({**fields, "offsets": offsets, "itemsize": size})  # type: ignore[call-overload]
    return layout


def one(layout: np.dtype[Any], **values: Any) -> np.ndarray:
    """Return a structure with these field values, as an array of length 1."""
    structure = np.zeros(1, layout)
    for name, value in values.items():
        structure[name] = value
    return structure


def read_structure(layout: np.dtype[Any], data: bytes | bytearray | memoryview) -> np.void:
    """Return the structure at the start of ``data``; fields beyond its end are zero."""
    whole = np.zeros(1, layout)
    part = np.frombuffer(data, np.uint8)[: layout.itemsize]
    whole.view(np.uint8)[: len(part)] = part
    structure: np.void = whole[0]
    return structure


KEYED, KEYED_INVALIDATE, IN_CAPSULE = 0x40, 0x4F, 0x01
"""SGL identifiers: a keyed data block by address (NVMe-oF 1.1, figure 13); such a block with remote invalidation; a
data block by its offset in the capsule."""

COMMAND = _layout(
    64,
    """
    opcode u1 0  flags u1 1  cid u2 2  nsid u4 4  fctype u1 4  address u8 24  length_low u2 32  length_high u1 34
    length u4 32  key V4 35  kind u1 39  cdw10 u4 40  cdw11 u4 44  cdw12 u4 48  cdw13 u4 52  cdw14 u4 56
    cdw15 u4 60  slba u8 40  property_value u8 48  recfmt u2 40  qid u2 42  sqsize u2 44  kato u4 48
    """,
)
"""A submission queue entry, with the fields of fabrics commands. ``length`` and ``key`` are those of
an in-capsule and of a keyed SGL; the length of a keyed SGL is in the lower 24 bits."""
COMPLETION = _layout(
    16,
    """
    result u8 0  sqhd u2 8  sqid u2 10  cid u2 12  status u2 14
    """,
)
CM_REQUEST = _layout(
    32,
    """
    recfmt u2 0  qid u2 2  hrqsize u2 4  hsqsize u2 6  cntlid u2 8
    """,
)
CM_ACCEPT = _layout(
    32,
    """
    recfmt u2 0  crqsize u2 2
    """,
)
CM_REJECT = _layout(
    4,
    """
    recfmt u2 0  status u2 2
    """,
)
CONNECT_DATA = _layout(
    1024,
    """
    hostid V16 0  cntlid u2 16  subnqn S256 256  hostnqn S256 512
    """,
)
CONTROLLER = _layout(
    4096,
    """
    serial S20 4  model S40 24  firmware S8 64  cmic u1 76  mdts u1 77  cntlid u2 78  ver u4 80  oaes u4 92
    ctratt u4 96  cntrltype u1 111  acl u1 258  aerl u1 259  frmw u1 260  lpa u1 261  elpe u1 262  kas u2 320
    anatt u1 342  anacap u1 343  anagrpmax u4 344  nanagrpid u4 348  sqes u1 512  cqes u1 513  maxcmd u2 514
    nn u4 516  oncs u2 520  vwc u1 525  awun u2 526  sgls u4 536  mnan u4 540  subnqn S256 768  ioccsz u4 1792
    iorcsz u4 1796  icdoff u2 1800  fcatt u1 1802  msdbd u1 1803  ofcs u2 1804
    """,
)
"""Identify Controller (NVMe 1.4, figure 247; NVMe-oF 1.1, figure 27)."""
NAMESPACE = _layout(
    4096,
    """
    nsze u8 0  ncap u8 8  nuse u8 16  nsfeat u1 24  nlbaf u1 25  flbas u1 26  nmic u1 30  dlfeat u1 33
    anagrpid u4 92  nsattr u1 99  nguid V16 104  eui64 V8 120  lbads u1 130
    """,
)
"""Identify Namespace (NVMe 1.4, figure 245), with LBA format 0."""
DISCOVERY_HEADER = _layout(
    1024,
    """
    genctr u8 0  numrec u8 8  recfmt u2 16
    """,
)
DISCOVERY_ENTRY = _layout(
    1024,
    """
    trtype u1 0  adrfam u1 1  subtype u1 2  treq u1 3  portid u2 4  cntlid u2 6  asqsz u2 8  trsvcid S32 32
    subnqn S256 256  traddr S256 512  qptype u1 768  prtype u1 769  cms u1 770
    """,
)
"""An entry of the discovery log page (NVMe-oF 1.1, figures 36 and 37)."""
ANA_HEADER = _layout(
    16,
    """
    chgcnt u8 0  groups u2 8
    """,
)
ANA_GROUP = _layout(
    32,
    """
    group u4 0  namespaces u4 4  chgcnt u8 8  state u1 16
    """,
)
SMART = _layout(
    512,
    """
    critical u1 0  temperature u2 1  spare u1 3  spare_threshold u1 4  used u1 5  units_read u8 32
    units_written u8 48  reads u8 64  writes u8 80  power_on_hours u8 128  media_errors u8 160  errors u8 176
    """,
)
ERROR_ENTRY = _layout(
    64,
    """
    count u8 0  sqid u2 8  cid u2 10  status u2 12  location u2 14  lba u8 16  nsid u4 24
    """,
)
