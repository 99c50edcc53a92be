"""Pages of identities."""
