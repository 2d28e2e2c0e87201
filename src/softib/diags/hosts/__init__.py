"""Missing, exchanged and shifted hosts, found by their names and order."""
