"""``accept`` and ``baseline``: measure the performance of a fabric, and its changes later."""
