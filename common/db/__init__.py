"""The database's clock, base querysets and base models."""
