"""Decides and records the calls of one process in batches. The database is the source of truth."""
