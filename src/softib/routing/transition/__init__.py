"""Changes of forwarding tables: check whether entries of the old and the new tables together can
form a credit loop."""
