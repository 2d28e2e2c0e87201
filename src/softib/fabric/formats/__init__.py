"""Readers and writers of fabric files; the format is detected from the content. The entry points
are ``read(path)`` and ``write(fabric, path, format)`` (:mod:`softib.fabric.formats.registry`).
"""
