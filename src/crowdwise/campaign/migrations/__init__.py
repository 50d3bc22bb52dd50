"""Alembic's migrations of a campaign's database."""
