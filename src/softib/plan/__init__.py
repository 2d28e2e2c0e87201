"""Rules for planning a fabric: which designs meet a demand, what growth changes, where racks stand
and how long cables are, what it costs, and when Ethernet is enough.

Everything here computes from its arguments: no subnet manager, no simulator. What runs those for a
design is in :mod:`softib.analysis.planning`.
"""
