"""``accept`` and ``baseline``: measure the performance of a fabric, and compare it later."""
