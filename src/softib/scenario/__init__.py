"""A fabric, its agents and a subnet manager on one virtual clock."""
