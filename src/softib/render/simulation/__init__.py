"""A simulation for people: on a terminal, as a page, over time, and one message of it."""
