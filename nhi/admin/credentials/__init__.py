"""Pages of credentials."""
