"""softib: InfiniBand in software.

Importing this package loads neither NumPy nor Numba: its packages are imported where they are used.
"""

__version__ = "0.1.0"
