"""The InfiniBand specification as data: wire structures (each declared once), constants and link
rates.

Source: InfiniBand Architecture Specification, volume 1, release 1.3 and later. It is called "IBA"
below, followed by the section.
"""
