"""Pure functions from a graph to forwarding tables, and the proof that they are right.

One file an engine, under OpenSM's names. Nothing here knows MADs, files or the fabric's arrays.
"""
