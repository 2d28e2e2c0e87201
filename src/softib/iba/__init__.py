"""The specification as data: wire structures (declared once), constants and link rates.

Sources: InfiniBand Architecture Specification, volume 1, release 1.3 and later ("IBA" below, with
the section).
"""
