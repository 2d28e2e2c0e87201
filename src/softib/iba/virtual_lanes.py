"""Data VLs by the codes of VLCap and OperationalVLs (PortInfo, IBA 14.2.5.6).

This is a separate module because the package's build reads :mod:`softib.iba.constants` without
NumPy.
"""

from __future__ import annotations

import numpy as np

__all__ = ["DATA_VLS"]

DATA_VLS = np.array([15, 1, 2, 4, 8, 15, 15, 15], np.int64)
"""Number of data VLs for each code: VL0, VL0-1, VL0-3, VL0-7, VL0-14. Code 0, on a port that no
manager has configured, does not limit the VLs. Codes 6 and 7 are reserved."""
