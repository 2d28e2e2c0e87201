"""The hardware of a fabric as flat NumPy arrays: nodes, ports, cables, and the tables that MADs
write.

:class:`~softib.fabric.model.Fabric` holds the arrays, and
:class:`~softib.fabric.builder.FabricBuilder` builds one. ``topologies`` generates fabrics;
``formats`` reads and writes files.
"""
