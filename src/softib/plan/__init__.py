"""Planning of a fabric: designs for a demand, the effect of growth, positions of racks and lengths of cables, costs,
and the choice between InfiniBand and Ethernet.

This package uses no subnet manager and no simulator; :mod:`softib.analysis.planning` runs these for a design.
"""
