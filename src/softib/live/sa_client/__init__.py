"""Questions to the subnet administration of a running fabric, over MADs."""
