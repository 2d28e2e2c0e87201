"""Display of a simulation: on a terminal, as a page, over time, and for one message."""
