"""The subnet administrator (IBA 15): answers questions about the subnet from what its manager
learned by MADs.

One file a kind of record; ``administrator`` takes requests and gives answers, ``match`` compares
records with a component mask, ``subnet`` is what a finished sweep left, as columns.
"""
