"""The hardware at rest: nodes, ports, cables and the tables that MADs write, as flat NumPy arrays.

:class:`~softib.fabric.model.Fabric` is the one truth; :class:`~softib.fabric.builder.FabricBuilder`
makes one; ``topologies`` generates, ``formats`` reads and writes.
"""
