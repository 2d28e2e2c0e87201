"""``accept`` and ``baseline``: does a fabric perform, and does it still?"""
