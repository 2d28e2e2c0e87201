"""Generators of fabrics, with one file per kind of topology, and the reader of the fabric file
(``fabric.yaml``).

``registry.generate(kind, **params)`` generates a fabric. ``spec.load_fabric_yaml(path)`` reads a
fabric file, which names a generator or a dump, cables, faults, and options of the subnet manager.
"""
