"""Acceptance of a fabric: who measures with whom and when, and which host, adapter, cable or switch
the slow pairs share.

Pure functions over columns: what starts programs is :mod:`softib.live.acceptance`, what a path
ought to carry :mod:`softib.analysis.acceptance.expected_pairs`.
"""
