"""Writing forwarding tables to switches: the new tables, the order of Sets, and their proof."""
