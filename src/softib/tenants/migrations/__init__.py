"""Migrations of the service's database, in Alembic's format."""
