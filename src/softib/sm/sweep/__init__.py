"""A sweep: discover the subnet, assign LIDs, route, write tables, and activate links. The modules
are its phases, its requests, and the handling of answers."""
