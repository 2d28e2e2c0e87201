"""Rules for planning a fabric: designs that meet a demand, the effect of growth, positions of racks and lengths of
cables, costs, and when Ethernet is enough.

Everything here is computed from its arguments: no subnet manager, no simulator. :mod:`softib.analysis.planning` runs
those for a design.
"""
