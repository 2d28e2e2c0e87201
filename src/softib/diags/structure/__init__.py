"""Recognises the structure of a fabric (tiers, rails, grids), and finds deviations from it (absent parts, exchanged
cables).
"""
