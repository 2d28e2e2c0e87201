"""Rules for planning a fabric: designs for a demand, the effect of growth, positions of racks and lengths of cables,
costs, and the choice between InfiniBand and Ethernet.

Everything here is computed from arguments, without a subnet manager or a simulator; :mod:`softib.analysis.planning`
runs these for a design.
"""
