"""Rules for planning a fabric: designs that meet a demand, the effect of growth, positions of racks and lengths of
cables, costs, and when Ethernet is enough.

All of it is computed from arguments, without a subnet manager or a simulator;
:mod:`softib.analysis.planning` runs those for a design.
"""
