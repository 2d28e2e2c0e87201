"""Links: credits, arbitration of VLs, discards, links that change."""
