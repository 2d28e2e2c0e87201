"""Whether tenants of a fabric are kept apart, and its managers safe: evidence, and the rules on it."""
