"""Clients of the revisions 2025-03-26 to 2025-11-25, which begin with `initialize` and then have a session."""
