"""Discovers the whole subnet in parallel with the programmer. A discovery takes seconds with thousands of hosts, and
must not delay changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from softib.tenants.subnet import SubnetView

__all__ = ["Search"]


class Search:
    """A discovery of the subnet in a separate thread, over a separate connection. ``whole``: also read the tables of
    all ports. When the discovery has ended, ``over`` is set, and the result is in ``view`` or an error in ``error``.
    The thread calls ``ended`` at its end.
    """

    def __init__(self, view: SubnetView, whole: bool, ended: Callable[[], None]):
        self.view, self.whole, self._ended = view, whole, ended
        self.error: Exception | None = None
        self.took_s = 0.0
        self.programmed: set[int] = set()
        """PortGUIDs of ports that were programmed after the search began. Their tables may have been read before they
        were programmed.
        """
        self.over = self._unwanted = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="softib-tenants-search", daemon=True).start()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self.view.discover()
            if self.whole:
                self.view.read(self.view.ports)
        except Exception as error:
            self.error = error
        with self._lock:
            self.took_s, self.over = time.monotonic() - began, True
            if self._unwanted or self.error is not None:
                self.view.close()
        self._ended()

    def close(self) -> None:
        """Discard the result."""
        with self._lock:
            self._unwanted = True
            if self.over:
                self.view.close()
