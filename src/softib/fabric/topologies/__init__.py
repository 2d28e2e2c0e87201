"""Generators of fabrics, one file per kind, and the fabric file (``fabric.yaml``).

``registry.generate(kind, **params)`` makes a fabric; ``spec.load_fabric_yaml(path)`` reads a file
that names a generator or a dump, cables, faults and the subnet manager's options.
"""
