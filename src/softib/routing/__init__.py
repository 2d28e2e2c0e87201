"""Pure functions from a graph to forwarding tables, and the proof that the tables are correct.

One file per engine, under OpenSM's names. Nothing here uses MADs, files or the fabric's arrays.
"""
