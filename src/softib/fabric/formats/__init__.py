"""Readers and writers of fabric files; the format is found by content.

``read(path)`` and ``write(fabric, path, format)`` are the two doors
(:mod:`softib.fabric.formats.registry`).
"""
